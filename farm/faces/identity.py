"""Identities: what the farm keeps of the pictures of the person to be put in."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.errors import InputError
from farm.faces.bank import Bank, Gatherer, coarse, make_bank
from farm.faces.bare import bare_skin, bared, in_view
from farm.faces.candidate import Candidate, FaceFinder, PictureBytes
from farm.faces.embed import Embedding, robust_mean
from farm.faces.expression import column
from farm.faces.eyes import iris_colour
from farm.faces.footage import ClipFile, Performer, faces_of, steadiest
from farm.faces.geometry import apply, crop_around, five_points, placement, scale_of
from farm.faces.lids import lidded
from farm.faces.mesh import VERTICES
from farm.faces.network import Networks
from farm.faces.texture import Mask, Texture, unwrap

DETAIL = 512
"""Side of the texture that is put onto faces."""

PORTRAIT = 512
"""Side of the level crop around the face that is kept for networks which want pixels."""

_PORTRAITS_OF_CLIP = 4
_FORMS = 3
_SHUT = 0.5
"""What the blendshapes of both eyes say from which a frame shows them shut."""


@dataclass(frozen=True, slots=True)
class PreparedIdentity:
    """One person, ready to be put in.

    Attributes
    ----------
    embedding: robust mean over the pictures, float32[128].
    detail: float32[512, 512, 3] RGB 0..1, the face unrolled from the best picture, its hair taken out.
    texture, skin: the same at analysis size, and where it is the picture's own skin and not filled in.
    shape: float64[468, 3], the face's form on an upright head, centimetres.
    iris: float32[3] RGB, None where the eyes do not show it. resolution: the face's extent in the picture, pixels.
    portrait, portrait_five: uint8[512, 512, 3] RGB level crop and its five points (5, 2).
    used, outliers: labels of the pictures that make it up, and of those left out because they show someone else.
    other_portraits, other_fives: the same crops (n, 512, 512, 3) and points (n, 5, 2) of the other pictures in `used`.
    sources: what neural swappers are told of this identity, by model (see `neural_identity`).
    bank: the frames to choose from; `detail`, `texture` and `skin` are the steadiest one's.
    lids: `detail` with both eyes covered by lids; None where the bank shows shut eyes.
    """

    embedding: Embedding
    detail: Texture
    texture: Texture
    skin: Mask
    shape: NDArray[np.float64]
    iris: NDArray[np.float32] | None
    resolution: float
    portrait: NDArray[np.uint8]
    portrait_five: NDArray[np.float64]
    used: tuple[str, ...]
    outliers: tuple[str, ...]
    other_portraits: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, PORTRAIT, PORTRAIT, 3), np.uint8))
    other_fives: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 5, 2)))
    sources: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    bank: Bank = field(default_factory=Bank.empty)
    lids: Texture | None = None

    def to_bytes(self) -> bytes:
        """A compact, versioned form (NumPy .npz, no pickle)."""
        out = io.BytesIO()
        np.savez_compressed(
            out,
            version=np.int64(3),
            embedding=self.embedding,
            detail=np.round(self.detail * 65535).astype(np.uint16),
            skin=self.skin,
            shape=self.shape,
            iris=np.zeros(0, np.float32) if self.iris is None else self.iris,
            resolution=np.float64(self.resolution),
            portrait=self.portrait,
            portrait_five=self.portrait_five,
            used=np.array(self.used, np.str_),
            outliers=np.array(self.outliers, np.str_),
            other_portraits=self.other_portraits,
            other_fives=self.other_fives,
            source_names=np.array(tuple(self.sources), np.str_),
            allow_pickle=False,
            **{f"source_{number}": source for number, source in enumerate(self.sources.values())},
            **self.bank.to_arrays(),
        )
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> PreparedIdentity:
        with np.load(io.BytesIO(data), allow_pickle=False) as z:
            detail = z["detail"].astype(np.float32) / np.float32(65535)
            bank = Bank.from_arrays(z)
            return cls(
                embedding=z["embedding"],
                detail=detail,
                texture=coarse(detail),
                skin=z["skin"],
                shape=z["shape"],
                iris=z["iris"] if len(z["iris"]) else None,
                resolution=float(z["resolution"]),
                portrait=z["portrait"],
                portrait_five=z["portrait_five"],
                used=tuple(str(name) for name in z["used"]),
                outliers=tuple(str(name) for name in z["outliers"]),
                other_portraits=z["other_portraits"],
                other_fives=z["other_fives"],
                sources={str(name): z[f"source_{number}"] for number, name in enumerate(z["source_names"])},
                bank=bank,
                lids=_lids(detail, z["skin"], bank),
            )


def prepare_identity(
    pictures: Sequence[PictureBytes],
    networks: Networks,
    *,
    face: int | None = None,
    clips: Sequence[ClipFile] = (),
    tick: Callable[[], None] = lambda: None,
) -> PreparedIdentity:
    """Make an identity of one or more pictures and clips of one person.

    `face` says which face is meant where a picture shows several, counted from 0 in order from left to right. `tick` is
    called for every frame of a clip.
    Raises InputError: no picture or clip, unreadable, no face, several faces and no choice, a face under 48 pixels.
    """
    if not pictures and not clips:
        raise InputError("No picture was given.", where="the identity", do="Send at least one picture of the person.")
    finder = FaceFinder(networks)
    found = [finder.in_picture(picture, face, number) for number, picture in enumerate(pictures)]
    known = robust_mean(np.array([candidate.embedding for candidate in found]))[0] if found else None
    for number, clip in enumerate(clips):
        found += _performance(clip, len(pictures) + number, finder, known, tick)
    embedding, kept = robust_mean(np.array([candidate.embedding for candidate in found]))
    inliers = [candidate for candidate, keep in zip(found, kept, strict=True) if keep]
    best = steadiest(inliers) if clips else max(inliers, key=lambda candidate: candidate.worth)
    place = next(number for number, candidate in enumerate(inliers) if candidate is best)
    inliers = [candidate.enlarged(networks) for candidate in inliers]
    best = inliers[place]
    bank = make_bank(inliers, best)
    rgb = np.ascontiguousarray(best.picture[:, :, ::-1])
    seen = unwrap(rgb, best.points, DETAIL)
    bare = bank.skins[0].astype(np.float32) / np.float32(255)
    if len(bank) == 1:
        bare = in_view(bare_skin(coarse(seen)), best.points)
    # Rounded as `to_bytes` rounds, so that a stored identity renders the same frames.
    detail = np.asarray(np.round(bared(seen, bare) * 65535) / np.float32(65535), np.float32)
    portrait, five = _portrait(best)
    others = [_portrait(candidate) for candidate in _telling(inliers, best)]
    used = {candidate.label: None for candidate in inliers}
    return PreparedIdentity(
        embedding=embedding,
        detail=detail,
        texture=coarse(detail),
        skin=bare,
        shape=_shape(inliers, best),
        iris=iris_colour(rgb.astype(np.float32) / np.float32(255), best.points),
        resolution=best.size,
        portrait=portrait,
        portrait_five=five,
        used=tuple(used),
        outliers=tuple({c.label: None for c in found if c.label not in used}),
        other_portraits=np.array([crop for crop, _ in others], np.uint8).reshape(-1, PORTRAIT, PORTRAIT, 3),
        other_fives=np.array([points for _, points in others]).reshape(-1, 5, 2),
        bank=bank,
        lids=_lids(detail, bare, bank),
    )


def _lids(detail: Texture, skin: Mask, bank: Bank) -> Texture | None:
    blinks = bank.traits[:, [column("eyeBlinkLeft"), column("eyeBlinkRight")]]
    return None if (blinks > _SHUT).all(axis=1).any() else lidded(detail, skin)


def _performance(
    clip: ClipFile, number: int, finder: FaceFinder, known: Embedding | None, tick: Callable[[], None]
) -> list[Candidate]:
    """The frames of a clip that tell something new about the person meant."""
    performer, gatherer = Performer(known), Gatherer()
    for faces in faces_of(clip, number, finder, tick):
        face = performer.of(faces)
        if face is not None:
            gatherer.add(face)
    performer.check(clip)
    return gatherer.kept


def _telling(inliers: Sequence[Candidate], best: Candidate) -> list[Candidate]:
    """What neural swappers see beside the best: every other picture, and of a clip its few best frames."""
    others = sorted((c for c in inliers if c is not best), key=lambda candidate: -candidate.worth)
    taken: list[Candidate] = []
    for candidate in others:
        if sum(candidate.clip == other.clip for other in taken) < _PORTRAITS_OF_CLIP:
            taken.append(candidate)
    order = {id(candidate): place for place, candidate in enumerate(inliers)}
    return sorted(taken, key=lambda candidate: order[id(candidate)])


def _shape(inliers: Sequence[Candidate], best: Candidate) -> NDArray[np.float64]:
    """The face's form: of the best frame, or where a clip shows it more often, the middle of its most frontal ones."""
    frontal = [c for c in inliers if c.clip == best.clip and abs(c.traits[0]) < 20 and abs(c.traits[1]) < 20]
    used = frontal if len(frontal) >= _FORMS else [best]
    forms = [placement(c.points).undo(c.points[:VERTICES]) for c in used]
    return np.asarray(np.median(forms, axis=0)) if len(forms) > 1 else forms[0]


def _portrait(candidate: Candidate) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    rgb, points = np.ascontiguousarray(candidate.picture[:, :, ::-1]), candidate.points
    five = five_points(points)
    eyes = five[1] - five[0]
    side = 1.8 * float(np.ptp(points[:VERTICES, :2], axis=0).max())
    affine = crop_around(points[:VERTICES, :2].mean(axis=0), side, float(np.arctan2(eyes[1], eyes[0])), PORTRAIT)
    mode = cv2.INTER_AREA if scale_of(affine) < 0.5 else cv2.INTER_CUBIC
    crop = cv2.warpAffine(rgb, affine, (PORTRAIT, PORTRAIT), flags=mode, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(crop, np.uint8), apply(affine, five)
