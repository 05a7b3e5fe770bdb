"""A catalogue folder as an operator makes one, in which the models that are not bundled are stand-ins."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from farm.inference.catalogue import Catalogue
from farm.inference.deployment import Deployment, open_deployment
from farm.inference.spec import LicenceClass, ModelSpec
from farm.inference.standins import stand_in
from farm.resources import resource

_FILES = re.compile(r"^\[files\..*?(?=^\[(?!files\.))", re.MULTILINE | re.DOTALL)


def stand_in_catalogue(
    folder: Path,
    home: Path,
    names: Iterable[str],
    *,
    half: Mapping[str, bytes] | None = None,
    full: Mapping[str, bytes] | None = None,
) -> Deployment:
    """Write entries for `names` and what they need into `folder` (FARM_MODELS_DIR) and their weights into `home`.

    Their licences are accepted. half: bytes of an fp16 file, which becomes the default precision, by name. full: of an
    fp32 file in place of the stand-in.
    """
    own = Catalogue.load()
    folder.mkdir(parents=True, exist_ok=True)
    (home / "models" / "weights").mkdir(parents=True, exist_ok=True)
    specs = {spec.name: spec for name in names for spec in own.with_needs(name)}
    for spec in specs.values():
        if not spec.bundled and not spec.builtin:
            _write(spec, folder, home, (full or {}).get(spec.name) or stand_in(spec), (half or {}).get(spec.name))
    deployment = open_deployment(home, folder)
    for spec in specs.values():
        if spec.licence.licence_class is not LicenceClass.PERMISSIVE:
            deployment.acceptances.accept(spec.name, spec.licence.id, by="a test")
    return deployment


def spoilt(name: str, factor: float = np.nan) -> bytes:
    """The stand-in of `name` with an answer times `factor`: no number, or flat where that is 0."""
    model = onnx.load_from_string(stand_in(Catalogue.load().spec(name)))
    out = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["before" if made == out else made for made in node.output]
    model.graph.initializer.insert(0, numpy_helper.from_array(np.float32(factor), "factor"))
    model.graph.node.append(onnx.helper.make_node("Mul", ["before", "factor"], [out]))
    return model.SerializeToString()


def convolved(name: str) -> bytes:
    """The stand-in of `name` with its picture through two convolutions that together hardly change it."""
    model = onnx.load_from_string(stand_in(Catalogue.load().spec(name)))
    out = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["before" if made == out else made for made in node.output]
    random = np.random.default_rng(3)
    turn = np.linalg.qr(random.normal(size=(3, 3)))[0].astype(np.float32)
    for label, kernel in (("there", turn), ("back", turn.T)):
        weights = numpy_helper.from_array(np.ascontiguousarray(kernel[:, :, None, None]), label)
        model.graph.initializer.insert(0, weights)
    model.graph.node.append(onnx.helper.make_node("Conv", ["before", "there"], ["between"]))
    model.graph.node.append(onnx.helper.make_node("Conv", ["between", "back"], [out]))
    return model.SerializeToString()


def _write(spec: ModelSpec, folder: Path, home: Path, full: bytes, half: bytes | None) -> None:
    text = (resource("models") / f"{spec.name}.toml").read_text(encoding="utf-8")
    text = re.sub(r"^default_precision = .*\n", "", text, flags=re.MULTILINE)
    tables = _table("fp32", full, home)
    if half is not None:
        tables += _table("fp16", half, home)
        text = f'default_precision = "fp16"\n{text}'
    text, count = _FILES.subn("", text, count=1)
    assert count == 1, f"{spec.name}: no files to replace"
    (folder / f"{spec.name}.toml").write_text(text.replace("[[inputs]]", f"{tables}\n[[inputs]]", 1), encoding="utf-8")


def _table(precision: str, data: bytes, home: Path) -> str:
    digest = hashlib.sha256(data).hexdigest()
    (home / "models" / "weights" / f"{digest}.onnx").write_bytes(data)
    return f'[files.{precision}]\nfile = "stand-in.onnx"\nsha256 = "{digest}"\nsize = {len(data)}\n\n'
