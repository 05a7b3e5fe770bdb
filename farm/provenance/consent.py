"""A person's recorded consent to a replacement, as it travels with a job."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from farm.errors import PolicyError

STATEMENT = (
    "The submitter states that every person whose face is put in, or replaced, has agreed to this use, "
    "and that the result will be shown as AI-altered."
)


class ConsentPolicy(StrEnum):
    """ATTEST records the submitter's statement; GRANT refuses a job that names no recorded grant."""

    ATTEST = "attest"
    GRANT = "grant"


class Consent(BaseModel):
    """What was stated or granted. `level` A0 is a bare statement, A1 a signed document known to the farm by hash."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Literal["A0", "A1"] = "A0"
    statement: str = STATEMENT
    grant_sha256: str | None = None
    clean_master: bool = False


def admit(consent: Consent, policy: ConsentPolicy, *, changes_faces: bool) -> Consent:
    """The consent that the job is recorded with; PolicyError when the policy asks for more than there is.

    A clean master (no visible label) is only for a job under a grant: a bare statement never removes a label.
    """
    if not changes_faces:
        return consent
    if policy is ConsentPolicy.GRANT and consent.grant_sha256 is None:
        raise PolicyError(
            "This farm renders only under a recorded grant, and the job names none.",
            where="consent",
            do="Give the signed document of the person shown (--grant FILE, or `consent.grant_sha256`).",
        )
    if consent.clean_master and consent.grant_sha256 is None:
        raise PolicyError(
            "A deliverable without the visible label needs a recorded grant that allows it.",
            where="consent.clean_master",
            do="Give the grant, or take the labelled deliverable.",
        )
    return consent
