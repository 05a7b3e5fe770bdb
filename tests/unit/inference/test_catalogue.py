from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from farm.errors import NotFoundError, PolicyError, RecipeError
from farm.inference.catalogue import Catalogue
from farm.inference.integrity import sha256_of
from farm.inference.licences import LicencePolicy
from farm.inference.spec import LicenceClass, ModelSpec
from farm.inference.templates import NAMES, template

CATALOGUE = Catalogue.load()
ENTRIES = [pytest.param(spec, id=spec.name) for spec in CATALOGUE]

MINIMAL = """
name = "toy"
title = "A toy"
task = "upscaler"
[licence]
id = "MIT"
class = "permissive"
url = "https://example.org/licence"
[files.fp32]
file = "toy.onnx"
[[inputs]]
name = "x"
shape = [1, 3, 8, 8]
kind = "image"
layout = "NCHW"
colour = "RGB"
[[outputs]]
name = "y"
shape = [1, 3, 8, 8]
kind = "other"
[runtime]
memory_mib = 1
"""


def write(folder: Path, text: str, name: str = "toy") -> Path:
    (folder / f"{name}.toml").write_text(text)
    return folder


@pytest.mark.parametrize("spec", ENTRIES)
def test_every_entry_says_where_its_licence_terms_are(spec: ModelSpec) -> None:
    text = CATALOGUE.licence_text(spec.name)
    assert len(text) > 40
    if spec.bundled:
        assert "AS IS" in text, "a bundled model carries its whole licence text"


@pytest.mark.parametrize("spec", [p for p in ENTRIES if p.values[0].bundled])
def test_every_bundled_file_is_the_one_that_the_entry_pins(spec: ModelSpec) -> None:
    folder = CATALOGUE.folder(spec.name)
    for file in spec.files.values():
        path = folder / "weights" / file.file
        assert path.stat().st_size == file.size
        assert sha256_of(path) == file.sha256
    assert (folder / "cards" / f"{spec.name}.md").is_file(), "a bundled model has a model card"
    assert spec.origin is not None
    assert spec.licence.licence_class is LicenceClass.PERMISSIVE


def test_no_weights_lie_about_that_no_entry_names() -> None:
    named = {file.file for spec in CATALOGUE if spec.bundled for file in spec.files.values()}
    found = {path.name for path in (CATALOGUE.folder("yunet") / "weights").iterdir()}
    assert found == named


def test_addresses_are_those_of_the_models_publishers_and_packages_go_by_name() -> None:
    publishers = {"github.com", "huggingface.co", "openmodeldb.info"}
    for spec in CATALOGUE:
        addresses = [spec.licence.url, *(source for file in spec.files.values() for source in file.sources)]
        addresses += [spec.origin.upstream] if spec.origin else []
        for address in filter(None, addresses):
            assert address.startswith("https://"), spec.name
            assert urlsplit(address).hostname in publishers, address
        if spec.origin is not None:
            assert re.fullmatch(r"PyPI: [a-z-]+ [0-9.]+", spec.origin.package)


def test_an_unknown_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no model called 'nope'"):
        CATALOGUE.spec("nope")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('task = "upscaler"', 'task = "oven"', "task"),
        ('url = "https://example.org/licence"', "", "licence"),
        ('colour = "RGB"', "", "colour order"),
        ("memory_mib = 1", "memory_mib = 0", "runtime.memory_mib"),
        ('file = "toy.onnx"', 'file = "toy.onnx"\nsha256 = "12"', "files.fp32.sha256"),
        ('kind = "other"', 'kind = "other"\ntemplate = "round_face"', "template 'round_face'"),
        ('title = "A toy"', 'title = "A toy"\nneeds = ["ghost-story"]', "needs 'ghost-story'"),
        ('title = "A toy"', 'title = "A toy"\nneeds = ["toy"]', "toy → toy"),
        ('title = "A toy"', 'title = "A toy', "not TOML"),
        ('title = "A toy"', 'title = "A toy"\nbundled = true', "sha256 and size"),
        ('name = "toy"', 'name = "other"', "calls itself 'other'"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_field(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(says)):
        Catalogue.read(write(tmp_path, MINIMAL.replace(old, new, 1)))


def test_a_later_folder_replaces_an_entry(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    write(first, MINIMAL)
    write(second, MINIMAL.replace("A toy", "My toy"))
    assert Catalogue.read(first, second).spec("toy").title == "My toy"
    assert Catalogue.read(first, second).folder("toy") == second


def test_needs_come_before_what_needs_them() -> None:
    names = [spec.name for spec in CATALOGUE.with_needs("face-blendshapes-52")]
    assert names == ["face-landmarks-478", "face-blendshapes-52"]


def entry(tmp_path: Path, licence_class: str) -> ModelSpec:
    return Catalogue.read(write(tmp_path, MINIMAL.replace('class = "permissive"', f'class = "{licence_class}"'))).spec(
        "toy"
    )


def test_a_licence_class_that_is_not_allowed_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"'non-commercial'.*FARM_ALLOWED_LICENCES"):
        LicencePolicy().check(entry(tmp_path, "non-commercial"))


def test_an_allowed_class_still_needs_acceptance_of_this_very_licence(tmp_path: Path) -> None:
    spec = entry(tmp_path, "copyleft")
    with pytest.raises(PolicyError, match="farm models accept-licence toy"):
        LicencePolicy.of(["copyleft"]).check(spec)
    with pytest.raises(PolicyError, match="not accepted"):
        LicencePolicy.of(["copyleft"], {"toy": "GPL-2.0"}).check(spec)
    LicencePolicy.of(["copyleft"], {"toy": "MIT"}).check(spec)


def test_templates_lie_inside_the_crop_with_eyes_above_mouth() -> None:
    for name in NAMES:
        points = template(name, 128)
        assert points.shape == (5, 2)
        assert points.min() > 0
        assert points.max() < 128
        assert points[:2, 1].max() < points[2, 1] < points[3:, 1].min()
        assert points[0, 0] < points[2, 0] < points[1, 0]
    with pytest.raises(RecipeError, match="alignment template"):
        template("oval")
