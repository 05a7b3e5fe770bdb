import errno
import os
from pathlib import Path

import pytest

from farm.cli.files import check_input, check_output, replacing
from farm.errors import DiskFullError, InputError


def test_inputs_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.mp4"
    empty.touch()
    for path, words in ((tmp_path / "none.mp4", "does not exist"), (tmp_path, "folder"), (empty, "empty file")):
        with pytest.raises(InputError, match=words) as caught:
            check_input(path, "plate")
        assert caught.value.where == str(path)


def test_the_output_is_never_an_input(tmp_path: Path) -> None:
    plate = tmp_path / "plate.mp4"
    plate.write_bytes(b"x")
    alias = tmp_path / "alias.mp4"
    alias.symlink_to(plate)
    hard = tmp_path / "hard.mp4"
    os.link(plate, hard)
    for out in (plate, alias, hard):
        with pytest.raises(InputError, match="replace a file that is read"):
            check_output(out, (plate,))
    check_output(tmp_path / "other.mp4", (plate,))


def test_the_output_is_an_ordinary_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        check_output(tmp_path, ())
    with pytest.raises(InputError, match="ordinary"):
        check_output(Path("/dev/null"), ())


def test_an_output_is_replaced_only_when_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    out.write_bytes(b"old")
    with replacing(out) as target:
        target.write(b"new")
        assert out.read_bytes() == b"old"
    assert out.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [out]


def test_a_broken_output_leaves_the_old_one_alone(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    out.write_bytes(b"old")

    def interrupted() -> None:
        with replacing(out) as target:
            target.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert out.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_that_is_not_there_is_known_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"), replacing(tmp_path / "none" / "out.mp4"):
        pytest.fail("the block must not run")


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    with pytest.raises(DiskFullError) as caught, replacing(out):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.where == str(out)
    assert list(tmp_path.iterdir()) == []
