"""Settings of the neural processors, as recipes write them. An unknown or impossible one is refused at submission."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from farm.faces.neural_masks import FACE

Share = Annotated[float, Field(ge=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=45)]
Area = Literal["face", "upper-face", "lower-face", "mouth"]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MaskSettings(_Settings):
    """Where a face may change: the least of all that is asked for.

    Attributes
    ----------
    box_blur: softness of the crop's edge. padding: percent of the crop's side that stay untouched at the top, right,
        bottom and left.
    areas: parts of the face by the 478 points, without a model; empty for no limit. occluders: occlusion models of the
        catalogue. region_model, regions: a region model and the regions of it that may change.
    hands: keep hands in front of the face, as the bundled hand finder sees them.
    erode: how far the inner masks (all but the box) shrink, blur: how softly they end inside themselves; shares of the
        crop's side.
    """

    box_blur: Share = 0.3
    padding: tuple[Percent, Percent, Percent, Percent] = (0, 0, 0, 0)
    areas: tuple[Area, ...] = ()
    occluders: tuple[str, ...] = ()
    region_model: str | None = None
    regions: tuple[str, ...] = FACE
    hands: bool = True
    erode: float = Field(default=0.0, ge=0, le=0.1)
    blur: float = Field(default=0.01, ge=0, le=0.1)

    @property
    def models(self) -> tuple[str, ...]:
        return (*self.occluders, *([self.region_model] if self.region_model else []))


class NeuralSettings(_Settings):
    """What all neural face processors take.

    precision: which of the catalogue entry's files is used, None for its default; "int8" is made of the fp32 file and
    calibrated on the plate's own crops. int8_error: how far int8 may be off, as a share of what the answers span (mean
    over crops that did not calibrate it); beyond that the job is refused. smallest: faces under this many pixels are
    left as they are.
    """

    precision: str | None = None
    int8_error: Share = 0.02
    mask: MaskSettings = MaskSettings()
    smallest: float = Field(default=24.0, ge=8)


class NeuralSwapSettings(NeuralSettings):
    """The processor "swap" with a catalogue model.

    Attributes
    ----------
    strength: how much of the new face is put in. weight: from the plate's identity (0) to more than the new one (1),
        .5 is the new one as it is; only models that say so have it.
    boost: pixel boost, sides of the crop in multiples of the model's; the network runs boost² times.
    colour: how far the new face's mean and spread of colour are matched to the plate's, inside the mask.
    morph: for autoencoders (DFM) that have such an input.
    max_yaw, max_pitch: degrees beyond which a face is left as it is; the swap fades out over the 20 degrees before.
    min_sharpness: faces less sharp (see `farm.faces.sharpness`) are left; the swap fades in up to twice that.
    """

    strength: Share = 1.0
    weight: Share = 0.5
    boost: int = Field(default=1, ge=1, le=8)
    colour: Share = 0.0
    morph: Share | None = None
    max_yaw: float = Field(default=80.0, ge=10, le=90)
    max_pitch: float = Field(default=65.0, ge=10, le=90)
    min_sharpness: float = Field(default=0.015, ge=0, le=0.2)


class RestoreSettings(NeuralSettings):
    """The processor "restore".

    scope: "face" for each face, "frame" for the whole picture (upscalers only: enlarged, then shrunk to its own size).
    blend: how much of the restored picture is mixed in, None for what the catalogue says. fidelity: for models with
    such an input (CodeFormer).
    """

    scope: Literal["face", "frame"] = "face"
    blend: Share | None = None
    fidelity: Share | None = None


class UpscaleSettings(_Settings):
    """The processor "upscale": the frame grows by `scale`, which must be the model's own."""

    scale: int = Field(ge=2, le=8)
    precision: str | None = None
    tile: int | None = Field(default=None, ge=16, le=2048)
    overlap: int | None = Field(default=None, ge=0, le=256)
