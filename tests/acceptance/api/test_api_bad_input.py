"""Input that cannot be used: the command says which thing, why and what to do, exits with 2 and leaves nothing."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from farm.sample import IDENTITIES, generate, portrait_picture
from tests.acceptance.api.conftest import FarmCommand, last_line
from tests.media_factory import ffmpeg

SEVERAL = 3


@pytest.fixture(scope="session")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that is wrong, and a plate that is right."""
    folder = tmp_path_factory.mktemp("material")
    plate = generate(folder, seconds=2, size=(320, 180), people=1).plate
    (folder / "empty.mp4").touch()
    (folder / "text.mp4").write_text("This is no film.\n" * 40)
    (folder / "cut.mp4").write_bytes(plate.read_bytes()[: plate.stat().st_size // 2])
    indexed = folder / "indexed.mp4"
    ffmpeg("-i", str(plate), "-c", "copy", "-movflags", "faststart", str(indexed))
    (folder / "half.mp4").write_bytes(indexed.read_bytes()[: indexed.stat().st_size * 7 // 10])
    ffmpeg("-f", "lavfi", "-i", "sine=duration=1", str(folder / "sound.m4a"))
    faces = [cv2.imread(str(portrait_picture(IDENTITIES[n % 2]))) for n in range(SEVERAL)]
    row = [cv2.resize(face, (512, 512)) for face in faces if face is not None]
    cv2.imwrite(str(folder / "three.jpg"), np.hstack(row))
    ramp = np.tile(np.linspace(0, 255, 640, dtype=np.uint8), (480, 1))
    cv2.imwrite(str(folder / "nobody.jpg"), cv2.merge([ramp, ramp[::-1], ramp]))
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff" + bytes(400))
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """Where the result would go; whatever happens, nothing is there afterwards."""
    folder = tmp_path / "out"
    folder.mkdir()
    yield folder / "result.mp4"
    assert list(folder.iterdir()) == []


def held(farm: FarmCommand) -> tuple[list[str], list[str], list[str]]:
    """Every job, object and upload of a farm."""
    jobs = [job["id"] for job in farm.data("jobs", "--limit", "200")["items"]]
    objects = sorted(str(path) for path in (farm.home / "store" / "objects").rglob("*") if path.is_file())
    return jobs, objects, [path.name for path in (farm.home / "incoming").iterdir()]


FACE = str(portrait_picture(IDENTITIES[0]))

BEFORE_ANY_FARM = [
    ("none.mp4", FACE, "none.mp4", "does not exist"),
    ("empty.mp4", FACE, "empty.mp4", "empty file"),
    ("text.mp4", FACE, "text.mp4", "text file"),
    ("cut.mp4", FACE, "cut.mp4", "cut off"),
    ("half.mp4", FACE, "half.mp4", "cut off"),
    ("sound.m4a", FACE, "sound.m4a", "picture"),
    ("sample.mp4", "none.jpg", "none.jpg", "does not exist"),
    (".", FACE, "", "folder"),
]


@pytest.mark.parametrize(("plate", "face", "thing", "reason"), BEFORE_ANY_FARM)
def test_files_that_no_farm_need_be_started_for(
    material: Path, out: Path, no_farm: FarmCommand, plate: str, face: str, thing: str, reason: str
) -> None:
    picture = material / face  # an absolute path stays what it is
    done = no_farm("render", material / plate, "--identity", picture, "-o", out)
    assert done.returncode == 2, done.stderr
    assert str(material / thing) in last_line(done)
    assert reason in last_line(done)
    assert not no_farm.home.exists()


@pytest.mark.parametrize(
    ("picture", "more", "reason"),
    [
        ("nobody.jpg", (), "No face was found"),
        ("three.jpg", (), f"{SEVERAL} faces were found"),
        ("three.jpg", ("--face", "7"), "Face 7 was chosen"),
        ("broken.jpg", (), "not a picture"),
    ],
)
def test_pictures_that_show_not_one_person(
    material: Path, out: Path, running_farm: FarmCommand, picture: str, more: tuple[str, ...], reason: str
) -> None:
    before = held(running_farm)
    done = running_farm("render", material / "sample.mp4", "--identity", material / picture, "-o", out, *more)
    assert done.returncode == 2, done.stderr
    assert reason in last_line(done)
    assert str(material / picture) in last_line(done)
    assert held(running_farm) == before


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--recipe", "nope"), "no recipe called 'nope'"),
        (("--recipe", "passthrough", "--deliverable", "nope"), "no deliverable called 'nope'"),
        (("--recipe", "passthrough", "--deliverable", "ffv1"), ".mkv file"),
        (("--recipe", "passthrough", "--chunk-seconds", "0"), "--chunk-seconds"),
        ((), "--identity"),
    ],
)
def test_options_that_cannot_be(
    material: Path, out: Path, no_farm: FarmCommand, options: tuple[str, ...], reason: str
) -> None:
    done = no_farm("render", material / "sample.mp4", "-o", out, *options)
    assert done.returncode == 2, done.stderr
    assert reason in last_line(done)


def test_an_output_that_cannot_be_written(material: Path, no_farm: FarmCommand, tmp_path: Path) -> None:
    plate = material / "sample.mp4"
    for target in (tmp_path / "none" / "x.mp4", tmp_path, plate):
        before = plate.read_bytes()
        done = no_farm("render", plate, "--recipe", "passthrough", "-o", target)
        assert done.returncode == 2, done.stderr
        assert str(target) in last_line(done)
        assert plate.read_bytes() == before
    assert not no_farm.home.exists()


def test_a_port_in_use(no_farm: FarmCommand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = no_farm("up", "--detach", FARM_API_PORT=str(port))
    assert done.returncode == 2, done.stderr
    assert str(port) in last_line(done)
    assert no_farm("down").stdout == "no farm was up\n"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None:
        pytest.skip("there is no mount program here")
    argv = [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if subprocess.run(argv, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk can be mounted by root only")
    yield folder
    subprocess.run([umount, str(folder)], check=True)


def test_a_full_disk_of_the_farm(material: Path, tiny_disk: Path, out: Path) -> None:
    farm = FarmCommand(tiny_disk / "home")
    done = farm("render", material / "sample.mp4", "--recipe", "passthrough", "-o", out)
    assert done.returncode == 2, done.stderr
    assert "disk is full" in last_line(done)
    assert str(tiny_disk) in last_line(done)


def test_a_full_disk_of_the_output(material: Path, tiny_disk: Path, running_farm: FarmCommand) -> None:
    (tiny_disk / "filler").write_bytes(bytes(1000 << 10))
    done = running_farm("render", material / "sample.mp4", "--recipe", "passthrough", "-o", tiny_disk / "x.mp4")
    assert done.returncode == 2, done.stderr
    assert "disk is full" in last_line(done)
    assert [path.name for path in tiny_disk.iterdir()] == ["filler"]


def test_no_farm_is_up(no_farm: FarmCommand) -> None:
    for command in (("jobs",), ("watch", "x")):
        done = no_farm(*command)
        assert done.returncode == 2
        assert "farm up" in last_line(done)


def test_a_job_that_does_not_exist(running_farm: FarmCommand) -> None:
    for command in ("watch", "download"):
        done = running_farm(command, "01NOTHING")
        assert done.returncode == 2, done.stderr
        assert "01NOTHING" in last_line(done)
