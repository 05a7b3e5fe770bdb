"""What the catalogue says about one model: its contract, its licence, and the files that hold its weights."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

INT8 = "int8"
"""The precision that no file has: made of the fp32 file by calibration; "int8-<digest>" is one such calibration."""


def is_int8(precision: str | None) -> bool:
    return precision is not None and precision.split("-")[0] == INT8


class Task(StrEnum):
    """What a model is for; a processor asks the catalogue for models by task."""

    DETECTOR = "detector"
    LANDMARKER = "landmarker"
    RECOGNISER = "recogniser"
    CONVERTER = "converter"
    EXPRESSION = "expression"
    ATTRIBUTES = "attributes"
    HANDS = "hands"
    PERSON_MASK = "person-mask"
    OCCLUSION_MASK = "occlusion-mask"
    REGION_MASK = "region-mask"
    SWAPPER = "swapper"
    RESTORER = "restorer"
    UPSCALER = "upscaler"
    CONTENT_FILTER = "content-filter"
    MODIFIER = "modifier"


class LicenceClass(StrEnum):
    """What a licence lets a studio do. Only PERMISSIVE is allowed unless the deployment says more."""

    PERMISSIVE = "permissive"
    COPYLEFT = "copyleft"
    RESPONSIBLE_USE = "responsible-use"
    NON_COMMERCIAL = "non-commercial"
    UNCLEAR = "unclear"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Licence(_Part):
    """`id` is an SPDX id or "LicenseRef-…"; `text` a file in models/licences; `note` what the id does not say."""

    id: str
    licence_class: LicenceClass = Field(alias="class")
    text: str = ""
    url: str = ""
    note: str = ""

    @model_validator(mode="after")
    def _says_where_the_terms_are(self) -> Licence:
        if not (self.text or self.url):
            raise ValueError("a licence needs its text file or the address where its terms stand")
        return self


class ModelFile(_Part):
    """The weights in one precision.

    `sha256` is None where no trusted checksum is known: such a file can be neither pulled nor run. `size` is in
    bytes, None where unknown. `sources` are addresses to pull from, in order.
    """

    file: str
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    size: int | None = Field(default=None, gt=0)
    sources: tuple[str, ...] = ()


class Origin(_Part):
    """How a bundled file was made: rebuilt by `tools/convert_models.py`."""

    package: str
    member: str
    member_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    conversion: str
    upstream: str


class Tensor(_Part):
    """One input or output.

    name: what this project calls the tensor; graph_name: what the file calls it, where that differs.
    shape: sizes, or a name for an axis that may vary ("N", "H", "W").
    kind: "image" tensors hold pixels: with `layout` and channel order `colour`, sample v in 0..1 is stored as
        (range[0] + v·(range[1]-range[0]) - mean) / std. An output with `denormalise` is read back with the inverse,
        one without it holds values of `range` as they are.
    template, size: the alignment template (farm/inference/templates.py) and side in pixels of the crop.
    recogniser, through, normalise: for kind "embedding": which recogniser makes it, which converter or matrix it goes
        through ("emap" is the matrix inside the swapper's own file), and what is done to its length.
    """

    name: str
    graph_name: str = ""
    shape: tuple[int | str, ...]
    dtype: Literal["float32", "float64", "float16", "uint8", "int64"] = "float32"
    kind: Literal["image", "embedding", "points", "weight", "mask", "scores", "boxes", "logits", "heatmaps", "other"]
    layout: Literal["NCHW", "NHWC", ""] = ""
    colour: Literal["RGB", "BGR", "Y", ""] = ""
    range: tuple[float, float] = (0.0, 1.0)
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    denormalise: bool = False
    template: str = ""
    size: int = 0
    recogniser: str = ""
    through: str = ""
    normalise: Literal["", "none", "unit", "by-raw-length"] = ""
    optional: bool = False

    @model_validator(mode="after")
    def _images_say_how_to_read_them(self) -> Tensor:
        if self.kind == "image" and not (self.layout and self.colour):
            raise ValueError(f"{self.name}: an image tensor needs its layout and colour order")
        if self.kind == "embedding" and not self.normalise:
            raise ValueError(f"{self.name}: an embedding says how its length is normalised")
        if any(s == 0 for s in self.std):
            raise ValueError(f"{self.name}: std must not be zero")
        return self

    @property
    def in_graph(self) -> str:
        return self.graph_name or self.name


class Decode(_Part):
    """How raw outputs become boxes, points or masks: the name of a decoder, and its numbers."""

    kind: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class Runtime(_Part):
    """What running it takes. `memory_mib` is measured on CPU where `memory_measured`, else estimated from the file."""

    memory_mib: int = Field(gt=0)
    memory_measured: bool = False
    dynamic_batch: bool = False
    tested_shapes: tuple[tuple[int, ...], ...] = ()
    tested_with: Literal["weights", "stand-in"] = "stand-in"


class ModelSpec(_Part):
    """One catalogue entry.

    bundled: the weights lie in the catalogue. builtin: it is code of the farm, without weights. not_built: the farm
        has no processor for it yet; the entry says so instead of hiding it.
    needs: the other entries without which it cannot be used; their licences count too.
    match: how tensors are found in the graph: by name, or by position where exports differ in their names (inputs
        still by name where the graph has those names).
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    title: str
    task: Task
    bundled: bool = False
    builtin: bool = False
    not_built: bool = False
    match: Literal["names", "position"] = "names"
    default_precision: str = "fp32"
    licence: Licence
    origin: Origin | None = None
    files: dict[str, ModelFile] = Field(default_factory=dict)
    needs: tuple[str, ...] = ()
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    decode: Decode | None = None
    runtime: Runtime
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _whole(self) -> ModelSpec:
        if self.builtin:
            if self.files:
                raise ValueError(f"{self.name}: a built-in processor has no weights")
            return self
        if self.not_built:
            return self
        if self.default_precision not in self.files:
            raise ValueError(f"{self.name}: there is no file for its default precision {self.default_precision}")
        if not self.inputs or not self.outputs:
            raise ValueError(f"{self.name}: a model says its inputs and outputs")
        if self.bundled and any(f.sha256 is None or f.size is None for f in self.files.values()):
            raise ValueError(f"{self.name}: a bundled file has its sha256 and size")
        return self

    def file(self, precision: str | None = None) -> ModelFile:
        """The file of `precision` (the default one where None), of int8 the one it is made of; KeyError for none."""
        return self.files["fp32" if is_int8(precision) else precision or self.default_precision]

    def input(self, name: str) -> Tensor:
        return next(t for t in self.inputs if t.name == name)

    def output(self, name: str) -> Tensor:
        return next(t for t in self.outputs if t.name == name)
