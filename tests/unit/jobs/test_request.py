"""The digest by which a repeated submission is known."""

from __future__ import annotations

from farm.jobs.request import JobRequest
from farm.recipe import preset

SHA = "a" * 64


def asked(**changes: object) -> JobRequest:
    body: dict[str, object] = {
        "plate": {"object_key": "uploads/1", "sha256": SHA},
        "identities": [{"label": "hero", "pictures": [{"object_key": "p/1", "sha256": SHA}]}],
        "recipe": preset("swap"),
        "deliverables": ["review"],
    }
    return JobRequest.model_validate(body | changes)


def test_where_the_same_content_was_stored_does_not_count() -> None:
    other = [{"label": "hero", "pictures": [{"object_key": "p/2", "sha256": SHA}]}]
    moved = asked(plate={"object_key": "uploads/2", "sha256": SHA}, identities=other, permit={"token": "x"})
    assert moved.digest() == asked().digest()


def test_anything_else_does() -> None:
    digests = {
        asked().digest(),
        asked(plate={"object_key": "uploads/1", "sha256": "b" * 64}).digest(),
        asked(plate={"uri": "s3://bucket/key"}).digest(),
        asked(plate={"uri": "s3://bucket/other"}).digest(),
        asked(deliverables=["master"]).digest(),
        asked(recipe=preset("passthrough")).digest(),
        asked(consent={"grant": "g"}).digest(),
        asked(chunk_seconds=10).digest(),
    }
    assert len(digests) == 8


def test_only_recipes_that_put_faces_in_need_a_cast() -> None:
    assert asked().needs_cast
    assert not asked(recipe=preset("restore-gfpgan")).needs_cast
    assert not asked(recipe=preset("passthrough")).needs_cast
