"""Object keys: made of ids, numbers and the farm's own words, never of names that people gave.

uploads/<upload>                                       a plate while it arrives
jobs/<job>/plate                                       the plate
jobs/<job>/timeline                                    its timeline
jobs/<job>/cast                                        embeddings and thumbnails of the people in it
jobs/<job>/casts/<edition>                             the same, as somebody corrected it by hand
jobs/<job>/pictures/<identity>/<n>                     reference pictures
jobs/<job>/identities/<identity>                       the prepared identity
jobs/<job>/calibrated                                  which networks were made in int8 for it
jobs/<job>/networks/<digest>                           such a network
jobs/<job>/segments/<chunk>                            packets of one chunk
jobs/<job>/timelines/<chunk>                           its part of the timeline
jobs/<job>/chunks/<chunk>/<attempt>/<deliverable>      what one attempt rendered
jobs/<job>/merges/<attempt>/<deliverable>              what one merge made; the job's row says which one counts
jobs/<job>/previews/<chunk>                            what its render looks like right now
jobs/<job>/logs/<task>/<attempt>                       log of one attempt
engines/<digest>                                       a built inference engine
"""

from __future__ import annotations

import re
from uuid import UUID

from farm.errors import InputError

Ident = UUID | str | int

MAX_KEY_BYTES = 512
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NUMBER_WIDTH = 6


def check_key(key: str) -> str:
    """The key itself; InputError when it is none that this module could have made."""
    if len(key) > MAX_KEY_BYTES or not all(_PART.fullmatch(part) for part in key.split("/")):
        raise InputError(
            "The object key is not one of the farm's.", where="store", do="Make keys with farm.store.keys."
        )
    return key


def _part(value: Ident) -> str:
    """One part of a key. Plain numbers are padded, so that key order is number order."""
    if isinstance(value, int):
        if value < 0:
            raise InputError(f"A key cannot hold the number {value}.", where="store", do="Give a number from 0.")
        return f"{value:0{_NUMBER_WIDTH}d}"
    text = str(value)
    if not _PART.fullmatch(text):
        raise InputError("A key is made of ids only.", where="store", do="Give an id of letters, digits, - and _.")
    return text


def _join(*parts: Ident) -> str:
    return "/".join(_part(part) for part in parts)


def upload(upload_id: Ident) -> str:
    return _join("uploads", upload_id)


def job(job_id: Ident) -> str:
    """The prefix of everything that belongs to a job."""
    return _join("jobs", job_id) + "/"


def plate(job_id: Ident) -> str:
    return _join("jobs", job_id, "plate")


def timeline(job_id: Ident) -> str:
    return _join("jobs", job_id, "timeline")


def cast(job_id: Ident) -> str:
    return _join("jobs", job_id, "cast")


def edited_cast(job_id: Ident, edition: Ident) -> str:
    return _join("jobs", job_id, "casts", edition)


def picture(job_id: Ident, identity: Ident, number: int) -> str:
    return _join("jobs", job_id, "pictures", identity, number)


def identity(job_id: Ident, identity_id: Ident) -> str:
    return _join("jobs", job_id, "identities", identity_id)


def segments(job_id: Ident) -> str:
    """The prefix of all segments of a job."""
    return _join("jobs", job_id, "segments") + "/"


def segment(job_id: Ident, chunk: int) -> str:
    return _join("jobs", job_id, "segments", chunk)


def calibrated(job_id: Ident) -> str:
    """What is known of the networks that were made in int8 for the job."""
    return _join("jobs", job_id, "calibrated")


def calibrated_network(job_id: Ident, digest: str) -> str:
    return _join("jobs", job_id, "networks", digest)


def segment_timeline(job_id: Ident, chunk: int) -> str:
    """The part of the timeline that the chunk's segment holds."""
    return _join("jobs", job_id, "timelines", chunk)


def chunk_results(job_id: Ident) -> str:
    """The prefix of all that the attempts of a job rendered."""
    return _join("jobs", job_id, "chunks") + "/"


def chunk_attempt(job_id: Ident, chunk: int, attempt: Ident) -> str:
    """The prefix of what one attempt rendered."""
    return _join("jobs", job_id, "chunks", chunk, attempt) + "/"


def chunk_result(job_id: Ident, chunk: int, attempt: Ident, deliverable: str) -> str:
    return _join("jobs", job_id, "chunks", chunk, attempt, deliverable)


def merge_attempt(job_id: Ident, attempt: Ident) -> str:
    """The prefix of what one merge made."""
    return _join("jobs", job_id, "merges", attempt) + "/"


def deliverable(job_id: Ident, attempt: Ident, name: str) -> str:
    return _join("jobs", job_id, "merges", attempt, name)


def preview(job_id: Ident, chunk: int) -> str:
    """The newest picture of a chunk that is being rendered; gone when the render ends."""
    return _join("jobs", job_id, "previews", chunk)


def attempt_log(job_id: Ident, task: Ident, attempt: Ident) -> str:
    return _join("jobs", job_id, "logs", task, attempt)


def engine(digest: str) -> str:
    return _join("engines", digest)
