"""Identities: what the farm keeps of the pictures of the person to be put in."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.errors import InputError
from farm.faces.bare import bare_skin, bared
from farm.faces.detect import Detection, Detector
from farm.faces.embed import Embedder, Embedding, robust_mean
from farm.faces.eyes import iris_colour
from farm.faces.geometry import apply, crop_around, five_points, head_pose, placement, scale_of
from farm.faces.landmarks import Landmarker
from farm.faces.mesh import VERTICES
from farm.faces.network import DETECTOR, EMBEDDER, LANDMARKER, UPSCALER, Networks
from farm.faces.texture import SIZE, Mask, Texture, unwrap

DETAIL = 512
"""Side of the texture that is put onto faces."""

PORTRAIT = 512
"""Side of the level crop around the face that is kept for networks which want pixels."""

_SMALLEST = 48
_COARSE = 160
_LARGEST_PICTURE = 4096


@dataclass(frozen=True, slots=True)
class PictureBytes:
    """An encoded picture (JPEG, PNG, WebP, ...) and what to call it in messages ("picture 2")."""

    data: bytes
    label: str


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

    def to_bytes(self) -> bytes:
        """A compact, versioned form (NumPy .npz, no pickle)."""
        out = io.BytesIO()
        np.savez_compressed(
            out,
            version=np.int64(2),
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
        )
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> PreparedIdentity:
        with np.load(io.BytesIO(data), allow_pickle=False) as z:
            detail = z["detail"].astype(np.float32) / np.float32(65535)
            return cls(
                embedding=z["embedding"],
                detail=detail,
                texture=_coarse(detail),
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
            )


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One picture's face."""

    label: str
    picture: NDArray[np.uint8]
    points: NDArray[np.float64]
    embedding: Embedding

    @property
    def worth(self) -> float:
        """Large, frontal and sharp is good."""
        pose = head_pose(self.points)
        side = float(np.ptp(self.points[:VERTICES, 0]))
        return min(side, 400.0) * float(np.cos(np.radians(pose.yaw)) * np.cos(np.radians(pose.pitch)))


def prepare_identity(
    pictures: Sequence[PictureBytes], networks: Networks, *, face: int | None = None
) -> PreparedIdentity:
    """Make an identity of one or more pictures of one person.

    `face` says which face is meant where a picture shows several, counted from 0 in order from left to right.
    Raises InputError: no picture, unreadable, no face, several faces and no choice, a face under 48 pixels.
    """
    if not pictures:
        raise InputError("No picture was given.", where="the identity", do="Send at least one picture of the person.")
    finder = _FaceFinder(networks)
    found = [finder(picture, face) for picture in pictures]
    embedding, kept = robust_mean(np.array([candidate.embedding for candidate in found]))
    inliers = [candidate for candidate, keep in zip(found, kept, strict=True) if keep]
    best = max(inliers, key=lambda candidate: candidate.worth)
    picture, points = _enlarged(best.picture, best.points, networks)
    rgb = np.ascontiguousarray(picture[:, :, ::-1])
    seen = unwrap(rgb, points, DETAIL)
    known = bare_skin(_coarse(seen))
    # Rounded as `to_bytes` rounds, so that a stored identity renders the same frames.
    detail = np.asarray(np.round(bared(seen, known) * 65535) / np.float32(65535), np.float32)
    portrait, five = _portrait(rgb, points)
    others = [_portrait(np.ascontiguousarray(c.picture[:, :, ::-1]), c.points) for c in inliers if c is not best]
    return PreparedIdentity(
        embedding=embedding,
        detail=detail,
        texture=_coarse(detail),
        skin=known,
        shape=placement(points).undo(points[:VERTICES]),
        iris=iris_colour(rgb.astype(np.float32) / np.float32(255), points),
        resolution=float(np.ptp(best.points[:VERTICES, :2], axis=0).max()),
        portrait=portrait,
        portrait_five=five,
        used=tuple(candidate.label for candidate in inliers),
        outliers=tuple(c.label for c, keep in zip(found, kept, strict=True) if not keep),
        other_portraits=np.array([crop for crop, _ in others], np.uint8).reshape(-1, PORTRAIT, PORTRAIT, 3),
        other_fives=np.array([points for _, points in others]).reshape(-1, 5, 2),
    )


def read_picture(picture: PictureBytes) -> NDArray[np.uint8]:
    """The picture as upright BGR (h, w, 3): its EXIF orientation is applied, transparency dropped."""
    data = np.frombuffer(picture.data, np.uint8)
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR) if len(data) else None
    if decoded is None:
        raise InputError(
            "This is not a picture that can be read.",
            where=picture.label,
            do="Send a JPEG, PNG, WebP or TIFF file.",
        )
    bgr = np.asarray(decoded, np.uint8)
    factor = _LARGEST_PICTURE / max(bgr.shape[:2])
    if factor < 1:
        bgr = np.asarray(cv2.resize(bgr, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA), np.uint8)
    return bgr


class _FaceFinder:
    def __init__(self, networks: Networks) -> None:
        self._detect = Detector(networks.load(DETECTOR))
        self._landmarks = Landmarker(networks.load(LANDMARKER))
        self._embed = Embedder(networks.load(EMBEDDER))

    def __call__(self, source: PictureBytes, face: int | None) -> _Candidate:
        picture = read_picture(source)
        chosen = _chosen(self._detect(picture), face, source.label)
        if chosen.size < _SMALLEST:
            raise InputError(
                f"The face is {chosen.size:.0f} pixels large; at least {_SMALLEST} are needed, and 250 look good.",
                where=source.label,
                do="Send a larger picture of the person.",
            )
        points = self._landmarks(picture, chosen).points
        return _Candidate(source.label, picture, points, self._embed(picture, five_points(points)))


def _chosen(faces: list[Detection], face: int | None, label: str) -> Detection:
    if not faces:
        raise InputError(
            "No face was found in this picture.",
            where=label,
            do="Send a picture that shows the person's face from the front, large and in good light.",
        )
    ordered = sorted(faces, key=lambda found: float(found.box[0] + found.box[2]))
    if face is None:
        if len(ordered) > 1:
            raise InputError(
                f"{len(ordered)} faces were found in this picture, and it was not said which one is meant.",
                where=label,
                do=f"Choose one by its number, 0 to {len(ordered) - 1} from left to right, or crop the picture.",
            )
        return ordered[0]
    if not 0 <= face < len(ordered):
        raise InputError(
            f"Face {face} was chosen, but {len(ordered)} were found in this picture.",
            where=label,
            do=f"Choose a number from 0 to {len(ordered) - 1}, counted from left to right.",
        )
    return ordered[face]


def _enlarged(
    picture: NDArray[np.uint8], points: NDArray[np.float64], networks: Networks
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The picture around the face, twice as large where the face has few pixels, and the points in it."""
    plane = points[:VERTICES, :2]
    side = np.ptp(plane, axis=0).max()
    low = np.maximum(np.floor(plane.min(axis=0) - 0.4 * side), 0).astype(int)
    high = np.minimum(np.ceil(plane.max(axis=0) + 0.4 * side), np.array(picture.shape[1::-1])).astype(int)
    cut = np.ascontiguousarray(picture[low[1] : high[1], low[0] : high[0]])
    moved = points - [*low, 0]
    if side >= _COARSE:
        return cut, moved
    tensor = np.ascontiguousarray(cut[:, :, ::-1].transpose(2, 0, 1), np.float32)[None] / np.float32(255)
    larger = networks.load(UPSCALER).run(data=tensor)["output"][0]
    bgr = np.clip(np.round(larger.transpose(1, 2, 0)[:, :, ::-1] * 255), 0, 255).astype(np.uint8)
    moved[:, :2] = (moved[:, :2] + 0.5) * 2 - 0.5
    moved[:, 2] *= 2
    return np.ascontiguousarray(bgr), moved


def _portrait(rgb: NDArray[np.uint8], points: NDArray[np.float64]) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    five = five_points(points)
    eyes = five[1] - five[0]
    side = 1.8 * float(np.ptp(points[:VERTICES, :2], axis=0).max())
    affine = crop_around(points[:VERTICES, :2].mean(axis=0), side, float(np.arctan2(eyes[1], eyes[0])), PORTRAIT)
    mode = cv2.INTER_AREA if scale_of(affine) < 0.5 else cv2.INTER_CUBIC
    crop = cv2.warpAffine(rgb, affine, (PORTRAIT, PORTRAIT), flags=mode, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(crop, np.uint8), apply(affine, five)


def _coarse(detail: Texture) -> Texture:
    return np.asarray(cv2.resize(detail, (SIZE, SIZE), interpolation=cv2.INTER_AREA), np.float32)
