from pathlib import Path

import pytest

from farm.cli.ask import Asked, deliverable_for, size_of
from farm.errors import InputError


def asked(tmp_path: Path, *identities: str) -> Asked:
    return Asked(plate=tmp_path / "plate.mp4", identities=identities, recipe="swap")


def test_pictures_are_grouped_by_the_name_before_the_equals_sign(tmp_path: Path) -> None:
    odd = tmp_path / "a=b.jpg"
    odd.touch()
    found = asked(tmp_path, "one.jpg", "two.jpg", "villain=three.jpg", str(odd))
    assert {label: [path.name for path in paths] for label, paths in found.pictures.items()} == {
        "identity": ["one.jpg", "two.jpg", "a=b.jpg"],
        "villain": ["three.jpg"],
    }


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("the plate", "plate.mp4"),
        ("plate", "plate.mp4"),
        ("identity", "one.jpg"),
        ("identity.villain", "two.jpg"),
        ("PostgreSQL", "PostgreSQL"),
    ],
)
def test_an_error_of_the_farm_is_told_with_the_files_name(tmp_path: Path, where: str, expected: str) -> None:
    blamed = asked(tmp_path, "one.jpg", "villain=two.jpg").blamed(InputError("It is bad.", where=where))
    assert blamed.where.endswith(expected)
    assert isinstance(blamed, InputError)


@pytest.mark.parametrize(
    ("out", "given", "expected"),
    [
        ("a.mp4", (), "h264"),
        ("a.mkv", (), "ffv1"),
        ("a.mov", (), "prores"),
        ("a.MP4", ("hevc10",), "hevc10"),
        ("a.xyz", ("match",), "match"),
    ],
)
def test_the_deliverable_follows_the_output(out: str, given: tuple[str, ...], expected: str) -> None:
    assert deliverable_for(Path(out), given) == expected


def test_a_suffix_that_contradicts_the_deliverable_is_refused() -> None:
    with pytest.raises(InputError, match=r"\.mkv file"):
        deliverable_for(Path("a.mp4"), ("ffv1",))
    with pytest.raises(InputError, match="one deliverable"):
        deliverable_for(Path("a.mp4"), ("h264", "review"))


@pytest.mark.parametrize(
    ("given", "size"),
    [(None, None), ("25MB", 25_000_000), ("1.5 gb", 1_500_000_000), ("300k", 300_000), ("12345", 12345)],
)
def test_sizes_are_read_with_their_units(given: str | None, size: int | None) -> None:
    assert size_of(given) == size


@pytest.mark.parametrize("given", ["", "big", "-5MB", "5TB", "MB"])
def test_what_is_no_size_is_refused(given: str) -> None:
    with pytest.raises(InputError, match="--max-size"):
        size_of(given)
