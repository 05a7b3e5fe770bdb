import pytest

from farm.errors import PolicyError
from farm.provenance.consent import Consent, ConsentPolicy, admit


def test_a_statement_is_enough_where_the_policy_says_so() -> None:
    consent = Consent()
    assert admit(consent, ConsentPolicy.ATTEST, changes_faces=True) is consent


def test_a_farm_that_asks_for_grants_refuses_a_bare_statement() -> None:
    with pytest.raises(PolicyError, match="recorded grant"):
        admit(Consent(), ConsentPolicy.GRANT, changes_faces=True)


def test_a_grant_admits_the_job() -> None:
    consent = Consent(level="A1", grant_sha256="ab" * 32)
    assert admit(consent, ConsentPolicy.GRANT, changes_faces=True).grant_sha256 == "ab" * 32


def test_nothing_is_asked_where_no_face_is_changed() -> None:
    admit(Consent(), ConsentPolicy.GRANT, changes_faces=False)


def test_a_bare_statement_never_removes_the_label() -> None:
    with pytest.raises(PolicyError, match="visible label"):
        admit(Consent(clean_master=True), ConsentPolicy.ATTEST, changes_faces=True)
