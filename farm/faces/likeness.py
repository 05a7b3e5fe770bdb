"""The form by which a person is known: an identity's proportions, fitted on heads that are not the plate's.

A picture's landmarks tell a face's form only roughly, and a recogniser does not mind all of it alike. So the prepared
identity is tried on the sitters, heads that come with the product, and its form bent a little, part by part, to where
it is more like its own pictures and less like the sitter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.detect import Detector
from farm.faces.embed import SAME_PERSON, Embedder, Embedding
from farm.faces.eyes import iris_colour
from farm.faces.geometry import five_points, placement
from farm.faces.identity import PreparedIdentity
from farm.faces.landmarks import Landmarker
from farm.faces.mesh import VERTICES, canonical_mesh
from farm.faces.meshwarp import SwapSettings, reproportioned, swap
from farm.faces.network import DETECTOR, EMBEDDER, LANDMARKER, Networks
from farm.faces.target import Target
from farm.faces.texture import skin, unwrap
from farm.media.facts import ColourFacts
from farm.media.frame import Frame, SampleFormat
from farm.resources import resource

Form = NDArray[np.float64]
"""float64[468, 3], centimetres on the upright head, image axes (y down)."""

_RGB = SampleFormat("gbrp", "rgb", 8, 0, 0, False)
_COLOUR = ColourFacts(primaries="bt709", transfer="bt709", matrix="gbr", range="pc", chroma_location="left")
_WEARING = SwapSettings()
_AWAY = 0.3
"""How much being less like the sitter counts against being more like the identity."""
_PROBE = 0.12
_MOST = 0.2
"""Centimetres by which a part is moved to see what that brings, and at most."""
_STIFF = 0.5
"""What a bend costs: of a slope of .01 a centimetre, a step of .02 centimetres is left."""
_STEPS = (1.0, 2.0)
_PARTS: dict[str, tuple[tuple[float, float, float, float], str]] = {
    "brows": ((3.4, 4.4, 2.2, 0.7), "out up wide"),
    "between the brows": ((0.0, 4.0, 1.0, 1.2), "out"),
    "eyes": ((3.2, 2.6, 1.5, 0.6), "out up wide"),
    "bridge": ((0.0, 2.0, 0.9, 1.5), "out up"),
    "nose": ((0.0, -1.2, 1.7, 1.1), "out up wide"),
    "cheeks": ((4.2, -1.0, 1.6, 1.8), "wide high"),
    "folds": ((2.6, -2.2, 0.7, 1.6), "out high"),
    "lips": ((0.0, -4.1, 2.8, 1.1), "up"),
    "jaw": ((5.2, -4.5, 1.5, 2.5), "out wide"),
}
"""Where parts lie on the canonical face (middle x and y, reach across and up, centimetres; both sides alike), and how
each may be bent: shifted outwards or up, made wider or higher. Lids are not among them: they open as the plate's do."""


@dataclass(frozen=True, slots=True)
class Sitter:
    """A head to try an identity on: its picture, BGR, its face, and who the recogniser takes it for."""

    picture: NDArray[np.uint8]
    target: Target
    embedding: Embedding

    def shot(self) -> Frame:
        """A fresh frame of the picture, planes in the order G, B, R."""
        return Frame(tuple(self.picture[:, :, channel].copy() for channel in (1, 0, 2)), _RGB, _COLOUR, pts=0, index=0)


def sitters(networks: Networks) -> list[Sitter]:
    """The heads that come with the product, all pictures of one person one after the other."""
    looks: dict[str, list[NDArray[np.uint8]]] = {}
    for path in sorted((resource("models") / "sitters").glob("*.jpg")):
        looks.setdefault(path.stem.rsplit("-", 1)[0], []).append(np.asarray(cv2.imread(str(path)), np.uint8))
    return [head for pictures in looks.values() for head in seated(pictures, networks)]


def seated(pictures: Sequence[NDArray[np.uint8]], networks: Networks) -> list[Sitter]:
    """Pictures of one person, BGR (h, w, 3), each with one face, as heads to try identities on."""
    find, landmarks = Detector(networks.load(DETECTOR)), Landmarker(networks.load(LANDMARKER))
    embed = Embedder(networks.load(EMBEDDER))
    marks = [landmarks(picture, find(picture)[0]).points for picture in pictures]
    rest = np.median([placement(points).undo(points[:VERTICES]) for points in marks], axis=0)
    heads = []
    for picture, points in zip(pictures, marks, strict=True):
        rgb = picture[:, :, ::-1].astype(np.float32) / np.float32(255)
        texture = unwrap(rgb, points)
        target = Target(points=points, texture=texture, skin=skin(texture), iris=iris_colour(rgb, points), rest=rest)
        heads.append(Sitter(picture, target, embed(picture, five_points(points))))
    return heads


def fitted(
    identity: PreparedIdentity, heads: Sequence[Sitter], networks: Networks, tick: Callable[[], None] = lambda: None
) -> PreparedIdentity:
    """The identity with its form bent to where, worn by `heads`, it is known best.

    Heads that are the person are left out. `tick` is called for every part that is tried.
    """
    fitting = _Fitting(identity, heads, Embedder(networks.load(EMBEDDER)))
    if not fitting.heads:
        return identity
    slope = np.zeros(len(bends()))
    bow = np.zeros(len(bends()))
    at = np.zeros(len(bends()))
    begin = fitting.worth(at)
    for number in range(len(at)):
        tick()
        probe = np.zeros(len(at))
        probe[number] = _PROBE
        more, less = fitting.worth(probe), fitting.worth(-probe)
        slope[number] = (more - less) / (2 * _PROBE)
        bow[number] = (more + less - 2 * begin) / _PROBE**2
    step = slope / (np.maximum(-bow, 0) + _STIFF)
    tried = [np.clip(step * share, -_MOST, _MOST) for share in _STEPS]
    worth = [fitting.worth(bend) for bend in tried]
    best = int(np.argmax(worth))
    return fitting.bent(tried[best]) if worth[best] > begin else identity


class _Fitting:
    """Tries bends of one identity's form on heads."""

    def __init__(self, identity: PreparedIdentity, heads: Sequence[Sitter], embed: Embedder) -> None:
        self._identity = identity
        self._embed = embed
        self.heads = [head for head in heads if float(head.embedding @ identity.embedding) < SAME_PERSON]

    def bent(self, bend: NDArray[np.float64]) -> PreparedIdentity:
        return replace(self._identity, shape=self._identity.shape + np.tensordot(bend, bends(), axes=1))

    def worth(self, bend: NDArray[np.float64]) -> float:
        """How much more the heads that wear the bent identity are like its pictures than like themselves."""
        worn, total = self.bent(bend), 0.0
        for head in self.heads:
            frame = head.shot()
            swap(frame, head.target, worn, _WEARING)
            green, blue, red = frame.planes
            picture = np.asarray(np.dstack([blue, green, red]), np.uint8)
            seen = self._embed(picture, five_points(reproportioned(head.target, worn, _WEARING.proportions)))
            total += float(seen @ worn.embedding) - _AWAY * float(seen @ head.embedding)
        return total / len(self.heads)


@cache
def bends() -> NDArray[np.float64]:
    """What one centimetre of each bend does to a form, float64[n, 468, 3]."""
    x, y = canonical_mesh().vertices[:, :2].astype(np.float64).T
    made = []
    for (across, up, wide, high), ways in _PARTS.values():
        near = np.maximum(*(np.exp(-(((x - side * across) / wide) ** 2) - ((y - up) / high) ** 2) for side in (1, -1)))
        middle = np.array([(np.abs(x) * near).sum(), (y * near).sum()]) / near.sum()
        amounts = {
            "out": (0, near * np.tanh(2 * x)),
            "up": (1, -near),
            "wide": (0, near * (np.abs(x) - middle[0]) * np.sign(x)),
            "high": (1, -near * (y - middle[1])),
        }
        for axis, amount in (amounts[way] for way in ways.split()):
            field = np.zeros((VERTICES, 3))
            field[:, axis] = amount
            made.append(field)
    return np.array(made)
