from __future__ import annotations

import uuid

import pytest

from farm.errors import InputError
from farm.store import keys

JOB = uuid.UUID("0f8fad5b-d9cb-469f-a165-70867728950e")


def test_keys_of_a_job_lie_under_its_prefix() -> None:
    made = [
        keys.plate(JOB),
        keys.timeline(JOB),
        keys.cast(JOB),
        keys.picture(JOB, "i1", 0),
        keys.identity(JOB, "i1"),
        keys.segment(JOB, 3),
        keys.chunk_result(JOB, 3, 2, "master"),
        keys.deliverable(JOB, "a1", "review"),
        keys.attempt_log(JOB, "t1", 2),
    ]
    assert len(set(made)) == len(made)
    for key in made:
        assert key.startswith(keys.job(JOB))
        assert keys.check_key(key) == key
    assert keys.segment(JOB, 3).startswith(keys.segments(JOB))
    assert keys.chunk_result(JOB, 3, 2, "master").startswith(keys.chunk_attempt(JOB, 3, 2))
    assert keys.chunk_attempt(JOB, 3, 2).startswith(keys.chunk_results(JOB))


def test_one_attempt_is_not_a_prefix_of_another() -> None:
    assert not keys.chunk_result(JOB, 1, 10, "master").startswith(keys.chunk_attempt(JOB, 1, 1))


def test_key_order_is_number_order() -> None:
    made = [keys.segment(JOB, number) for number in (0, 9, 10, 99, 100, 123_456)]
    assert made == sorted(made)


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a b", "film.mp4\n", "é", "a@"])
def test_only_ids_go_into_keys(name: str) -> None:
    with pytest.raises(InputError):
        keys.plate(name)


def test_negative_numbers_do_not() -> None:
    with pytest.raises(InputError):
        keys.segment(JOB, -1)


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "a/../b", "a\0", "a@", "x" * 513])
def test_check_key_refuses_what_could_leave_the_folder(key: str) -> None:
    with pytest.raises(InputError):
        keys.check_key(key)
