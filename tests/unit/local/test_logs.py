from __future__ import annotations

import os
from pathlib import Path

from farm.local.logs import open_log, rotate, tail


def test_a_large_log_is_emptied_under_its_writer_and_three_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "api.log"
    writer = open_log(path)
    for number in range(5):
        os.write(writer, f"part {number} ".encode() * 10)
        assert rotate(path, max_bytes=50) is True
    os.write(writer, b"last")
    os.close(writer)
    assert path.read_text() == "last"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["api.log", "api.log.1", "api.log.2", "api.log.3"]
    assert (tmp_path / "api.log.1").read_text().startswith("part 4")
    assert (tmp_path / "api.log.3").read_text().startswith("part 2")


def test_a_small_or_missing_log_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert rotate(tmp_path / "a") is False
    assert rotate(tmp_path / "b") is False


def test_the_tail(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old\n1\n\n2\n3\n")
    assert tail(path, 2) == "2\n3"
    assert tail(path, 9, start=4) == "1\n2\n3"
    assert tail(tmp_path / "none") == ""
