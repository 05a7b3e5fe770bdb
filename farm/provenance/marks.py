"""Machine-readable marks: what the deliverable's metadata says about how it was made.

The AIGC mark follows GB 45438-2025 Annex E: one JSON string a file, these keys in this order, characters 0x21 to 0x7E
without quote and backslash in values; at first writing the propagator is the producer.
"""

from __future__ import annotations

import json
import re

from farm.errors import InputError

_ALLOWED = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]*")


def aigc_mark(producer: str, produce_id: str) -> str:
    """The value of the `AIGC` metadata key for a file that is AI-altered."""
    for name, value in (("producer", producer), ("produce id", produce_id)):
        if not _ALLOWED.fullmatch(value):
            raise InputError(
                f"The {name} has characters that the AIGC mark cannot hold.",
                where=name,
                do="Use printable ASCII without blanks, quotes and backslashes.",
            )
    fields = {
        "Label": "1",
        "ContentProducer": producer,
        "ProduceID": produce_id,
        "ReservedCode1": "",
        "ContentPropagator": producer,
        "PropagateID": produce_id,
        "ReservedCode2": "",
    }
    return json.dumps(fields, separators=(",", ":"))
