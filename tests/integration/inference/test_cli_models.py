"""`farm models` as a person types it, in a home of its own and without network."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.cli import main
from farm.inference.catalogue import Catalogue
from farm.inference.standins import stand_in

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """farm("models", "list", ALLOWED="…") gives the exit status, stdout and stderr."""
    monkeypatch.setenv("FARM_HOME", str(tmp_path / "home"))
    for name in ("FARM_MODELS_DIR", "FARM_ALLOWED_LICENCES", "FARM_STORE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
        for name, value in environment.items():
            monkeypatch.setenv(f"FARM_{name}", value)
        capsys.readouterr()
        status = main(["models", *arguments])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def operators(tmp_path: Path, name: str = "simswap-256") -> tuple[Path, Path]:
    """A catalogue folder that pins a stand-in for `name`, and the folder that holds the file."""
    folder, mirror = tmp_path / "catalogue", tmp_path / "mirror"
    folder.mkdir()
    mirror.mkdir()
    spec = Catalogue.load().spec(name)
    data = stand_in(spec)
    (mirror / spec.file().file).write_bytes(data)
    text = (Catalogue.load().folder(name) / f"{name}.toml").read_text()
    pin = f'sha256 = "{hashlib.sha256(data).hexdigest()}"\nsize = {len(data)}\n'
    text = re.sub(r"^(sha256|size) = .*\n", "", text, flags=re.MULTILINE)
    text = text.replace(f'file = "{spec.file().file}"\n', f'file = "{spec.file().file}"\n{pin}').replace(
        'needs = ["crossface-simswap"]\n', ""
    )
    (folder / f"{name}.toml").write_text(text)
    return folder, mirror


def test_list_says_what_can_be_used_and_what_stands_in_the_way(farm: Run) -> None:
    status, out, _ = farm("list", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert status == 0
    assert rows["mesh-warp"]["usable"] == "yes"
    assert rows["sface"]["weights"] == "bundled fp32"
    assert rows["inswapper-128"]["usable"] == "licence not allowed: inswapper-128"
    assert rows["wav2lip-96"]["usable"] == "not built"
    assert rows["gfpgan-1.4"]["usable"] == "pull gfpgan-1.4"
    assert rows["blendswap-256"]["weights"] == "no known checksum"
    status, out, _ = farm("list", "--task", "hands")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["hand-landmarks", "palm-detection"]


def test_show_gives_contract_licence_and_files(farm: Run) -> None:
    status, out, _ = farm("show", "inswapper-128")
    assert status == 0
    for part in ("target N×3×128×128 float32 image NCHW RGB arcface_128", "e4a3f08c753cb72d", "non-commercial"):
        assert part in out
    assert json.loads(farm("show", "yunet", "--json")[1])["licence"]["class"] == "permissive"
    assert "Apache License" in farm("show", "sface", "--licence")[1]


def test_a_licence_is_allowed_then_accepted_then_the_file_pulled_and_gone_again(farm: Run, tmp_path: Path) -> None:
    folder, mirror = operators(tmp_path)
    place = ("--from", str(mirror), "--offline")
    status, _, err = farm("pull", "simswap-256", *place, MODELS_DIR=str(folder))
    assert status == 3
    assert "FARM_ALLOWED_LICENCES" in err.splitlines()[-1]
    assert farm("accept-licence", "simswap-256", "--yes")[0] == 3, "the class is not allowed yet"
    status, _, err = farm("pull", "simswap-256", *place, ALLOWED_LICENCES="non-commercial")
    assert status == 3
    assert "farm models accept-licence simswap-256" in err.splitlines()[-1]
    assert farm("accept-licence", "simswap-256", "--yes", "--by", "A. Lawyer")[0] == 0
    status, _, err = farm("pull", "simswap-256", *place)
    assert status == 0, err
    rows = json.loads(farm("verify", "simswap-256", "--json")[1])
    assert [row["state"] for row in rows] == ["right"]
    record = json.loads((tmp_path / "home" / "models" / "accepted-licences.json").read_text())
    assert record["simswap-256"]["licence"] == "CC-BY-NC-4.0"
    assert record["simswap-256"]["by"] == "A. Lawyer"

    Path(rows[0]["path"]).write_bytes(b"rot")
    status, _, err = farm("verify")
    assert status == 2
    assert "farm models remove simswap-256" in err.splitlines()[-1]
    assert farm("remove", "simswap-256")[0] == 0
    assert not Path(rows[0]["path"]).exists()
    assert farm("verify")[0] == 0


def test_bundled_weights_are_right_and_stay(farm: Run) -> None:
    status, out, _ = farm("verify", "--json")
    assert status == 0
    assert {row["name"] for row in json.loads(out)} >= {"yunet", "sface", "face-landmarks-478"}
    assert "nothing was pulled" in farm("remove", "sface")[2]
    assert farm("verify", "sface")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("show", "nope"), 2, "farm models list"),
        (("pull", "yunet", "--precision", "int8"), 2, "Choose: fp32"),
        (("pull", "yunet", "--offline"), 2, "--from FOLDER"),
        (("pull", "real-esrgan-x8", "--from", "/nowhere", "--offline"), 3, "FARM_MODELS_DIR"),
        (("pull", "yunet", "--share"), 2, "FARM_STORE"),
        (("pull", "gfpgan-1.4", "--from", "/nowhere", "--offline"), 2, "--from FOLDER"),
        (("build", "yunet", "--provider", "tensorrt-rtx"), 2, "--target"),
        (("list", "--task", "cooking"), 2, "--help"),
    ],
)
def test_what_cannot_be_done_says_so_in_the_last_line(
    farm: Run, arguments: tuple[str, ...], status: int, says: str
) -> None:
    found, _, err = farm(*arguments)
    assert found == status
    assert says in err.splitlines()[-1]


def test_a_models_folder_that_is_not_there_is_named(farm: Run) -> None:
    status, _, err = farm("list", MODELS_DIR="/no/such/folder")
    assert status == 2
    assert "FARM_MODELS_DIR" in err.splitlines()[-1]
