"""The same frames through the NumPy twins with ONNX Runtime's CPU provider, and through the card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_material import SURFACE, identity, semi_planar_pictures
from farm.faces.cuda.backend import Kernels, NumpyKernels
from farm.faces.cuda.compiled import cupy
from farm.faces.cuda.crop_step import Faces
from farm.faces.cuda.device import CudaKernels
from farm.faces.cuda.look import Looker
from farm.faces.cuda.networks import CARD, CHOSEN, FUSED, TWIN, looking_source
from farm.faces.cuda.paste import coverage, paste_plan
from farm.faces.cuda.places import similarities
from farm.faces.cuda.swap import SwapStep
from farm.faces.neural_masks import box_mask
from farm.inference import providers as ep
from farm.inference.bound import Source, open_bound
from farm.inference.buckets import Buckets
from farm.inference.catalogue import Catalogue
from farm.inference.templates import template
from farm.media import nvdec
from farm.resources import resource

FRAMES = 8


def compare(plate: Path, swapper: Path) -> dict[str, Any]:
    """PSNR (dB) where either side changed a sample, and how many samples differ where the mask is 0.

    Precisions are those of a job on each.
    """
    nvdec.claim_primary_context()
    frames = np.stack([picture for picture, _ in zip(semi_planar_pictures(plate), range(FRAMES), strict=False)])
    host, _ = _rendered(NumpyKernels(), TWIN, frames.copy(), swapper)
    card, touched = _rendered(CudaKernels(), CARD, cupy().asarray(frames), swapper)
    changed = (host != frames) | (card != frames)
    error = (host.astype(np.float64) - card)[changed]
    return {
        "psnr": float(10 * np.log10(255**2 / np.mean(error**2))),
        "most": float(np.abs(error).max()),
        "changed": float(changed.mean()),
        "outside": int((card != frames)[~touched].sum()),
    }


def _rendered(kernels: Kernels, device: str, frames: Any, swapper: Path) -> tuple[np.ndarray, np.ndarray]:
    """The frames, and where the mask lets them be changed."""
    catalogue = Catalogue.load(resource("models"))
    weights = Path(str(resource("models"))) / "weights"
    yunet, points, swap = (catalogue.spec(name) for name in ("yunet", "face-landmarks-478", "inswapper-128"))

    def opened(source: Source, tuning: Mapping[str, str], capacity: int = FRAMES) -> Buckets:
        provider = ep.CUDA if device == CARD else ep.CPU
        told: dict[str, Any] = {"requested": [provider], "stream": kernels.stream, "threads": 8, "tuning": tuning}
        return Buckets([open_bound(source, FRAMES, **told)], capacity, kernels.empty)

    eye, level = (looking_source(weights / spec.files["fp32"].file, device) for spec in (yunet, points))
    looker = Looker(
        kernels,
        SURFACE,
        (opened(eye, CHOSEN), yunet),
        (opened(level, FUSED), points),
        rough=opened(level, FUSED),
    )
    found = looker.look(frames, FRAMES)
    step = SwapStep(kernels, SURFACE, opened(swapper, CHOSEN, 32), swap)
    source = np.broadcast_to(identity(), (len(found), 512))
    step.lay(frames, Faces.plain(found.frame_of, found.five, source))
    to_frame = similarities(template("arcface_128", 128), found.five)
    plan = paste_plan(SURFACE, found.frame_of, to_frame, 128)
    return kernels.download(frames), coverage(SURFACE, plan, FRAMES, box_mask(128))
