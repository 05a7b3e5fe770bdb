from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.errors import InfrastructureError
from farm.local import privilege
from farm.local.privilege import RunAs, passable, prefixed, private_uid, run_as

OTHER = 60_999  # a user id that owns nothing here


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may pass; pytest's own are closed to others."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def program(folder: Path) -> Path:
    """A program that everybody may execute, in a folder whose mode the test sets."""
    path = folder / "bin" / "postgres"
    path.parent.mkdir()
    path.parent.chmod(0o755)
    path.touch()
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("mode", "passes"), [(0o755, True), (0o711, True), (0o710, False), (0o700, False), (0o744, False)]
)
def test_others_pass_a_folder_by_its_x_bit(program: Path, mode: int, passes: bool) -> None:
    program.parent.chmod(mode)
    assert passable(program, OTHER) is passes
    assert passable(program, os.getuid()) is (mode & 0o100 != 0)


def test_no_capability_where_none_is_needed(program: Path, folder: Path) -> None:
    assert run_as(OTHER, program, folder / "data") == RunAs(OTHER)


@pytest.mark.parametrize(
    ("held", "wanted"), [(0b110, "dac_read_search"), (0b100, "dac_read_search"), (0b010, "dac_override")]
)
def test_the_smaller_capability_that_root_holds(
    program: Path, monkeypatch: pytest.MonkeyPatch, held: int, wanted: str
) -> None:
    program.parent.chmod(0o700)
    monkeypatch.setattr(privilege, "_bounding_set", lambda: held)
    assert run_as(OTHER, program) == RunAs(OTHER, wanted)


def test_a_program_that_others_may_not_execute_needs_the_larger_one(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.chmod(0o700)
    monkeypatch.setattr(privilege, "_bounding_set", lambda: 0b110)
    assert run_as(OTHER, program) == RunAs(OTHER, "dac_override")


def test_no_way_is_an_error_that_names_the_folder(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.parent.chmod(0o700)
    monkeypatch.setattr(privilege, "_bounding_set", lambda: 0)
    with pytest.raises(InfrastructureError, match=str(program)):
        run_as(OTHER, program)


def test_argument_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privilege.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert prefixed(("postgres",), None) == ("postgres",)
    plain = prefixed(("postgres", "-D", "x"), RunAs(60_999))
    assert plain == (
        "/usr/bin/setpriv", "--reuid=60999", "--regid=60999", "--clear-groups", "--no-new-privs",
        "--inh-caps=-all", "--ambient-caps=-all", "--", "postgres", "-D", "x",
    )  # fmt: skip
    helped = prefixed(("postgres",), RunAs(60_999, "dac_override"))
    assert {"--ambient-caps=-all,+dac_override", "--securebits=+no_setuid_fixup"} <= set(helped)


def test_without_setpriv_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privilege.shutil, "which", lambda name: None)
    with pytest.raises(InfrastructureError, match="util-linux"):
        prefixed(("postgres",), RunAs(1))


def test_the_private_id_is_stable_and_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data"
    uid = private_uid(folder)
    assert uid == private_uid(folder)
    assert 60_706 <= uid <= 61_183
    monkeypatch.setattr(privilege, "_has_account", lambda candidate: candidate == uid)
    assert private_uid(folder) not in (0, uid)
    monkeypatch.setattr(privilege, "_has_account", lambda candidate: True)
    with pytest.raises(InfrastructureError):
        private_uid(folder)


def test_data_that_is_there_keeps_its_owner(tmp_path: Path) -> None:
    if os.getuid() == 0:
        os.chown(tmp_path, 4321, 4321)
    assert private_uid(tmp_path) == (4321 if os.getuid() == 0 else os.getuid())
