"""Made-up heads, faces and frames for the tests of this room."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from farm.faces.identity import PreparedIdentity
from farm.faces.mesh import LEFT_EYE, RIGHT_EYE, canonical_mesh
from farm.faces.texture import SIZE, atlas
from farm.faces.views import FaceView
from farm.media.facts import ColourFacts, PlateFacts, VideoFacts
from farm.media.frame import Frame, SampleFormat

FORMAT = SampleFormat("yuv420p", "yuv", 8, 1, 1, False)
COLOUR = ColourFacts(primaries="bt709", transfer="bt709", matrix="bt709", range="tv", chroma_location="left")


def head(
    *, yaw: float = 0, pitch: float = 0, roll: float = 0, size: float = 160, centre: tuple[float, float] = (160, 120)
) -> NDArray[np.float64]:
    """Landmarks (478, 3) of the canonical head, turned by degrees, `size` pixels high."""
    y, p, r = np.radians([yaw, pitch, roll])
    about_y = np.array([[np.cos(y), 0, -np.sin(y)], [0, 1, 0], [np.sin(y), 0, np.cos(y)]])
    about_x = np.array([[1, 0, 0], [0, np.cos(p), -np.sin(p)], [0, np.sin(p), np.cos(p)]])
    about_z = np.array([[np.cos(r), -np.sin(r), 0], [np.sin(r), np.cos(r), 0], [0, 0, 1]])
    form = canonical_mesh().vertices.astype(np.float64) * [1, -1, -1]
    irises = []
    for eye in (RIGHT_EYE, LEFT_EYE):
        middle = form[list(eye)].mean(axis=0)
        irises += [middle, *(middle + np.array([[0.55, 0, 0], [0, -0.55, 0], [-0.55, 0, 0], [0, 0.55, 0]]))]
    whole = np.vstack([form, irises])
    turned = whole @ (about_z @ about_y @ about_x).T
    scale = size / np.ptp(form[:, 1])
    return turned * scale + [*centre, 0]


def frame(luma: NDArray[np.uint8], *, index: int = 0) -> Frame:
    """A grey-toned frame with slightly warm chroma."""
    height, width = luma.shape
    chroma = ((height + 1) // 2, (width + 1) // 2)
    planes = (luma.copy(), np.full(chroma, 118, np.uint8), np.full(chroma, 142, np.uint8))
    return Frame(planes, FORMAT, COLOUR, pts=index * 10, index=index)


def facts(width: int = 320, height: int = 240) -> PlateFacts:
    video = VideoFacts(
        stream_index=0,
        codec="rawvideo",
        width=width,
        height=height,
        sample_format="yuv420p",
        bit_depth=8,
        time_base=Fraction(1, 240),
        start_pts=0,
        colour=COLOUR,
    )
    return PlateFacts(container="nut", size=0, video=video)


def identity(colour: tuple[float, float, float] = (0.7, 0.5, 0.4)) -> PreparedIdentity:
    """A featureless person of one colour."""
    tone = np.asarray(colour, np.float32)
    detail = np.ones((512, 512, 3), np.float32) * tone
    return PreparedIdentity(
        embedding=direction(1),
        detail=detail,
        texture=detail[:SIZE, :SIZE].copy(),
        skin=atlas().inside.astype(np.float32),
        shape=canonical_mesh().vertices.astype(np.float64) * [1, -1, -1],
        iris=None,
        resolution=150.0,
        portrait=np.zeros((512, 512, 3), np.uint8),
        portrait_five=np.zeros((5, 2)),
        used=("picture 1",),
        outliers=(),
    )


def direction(number: int, *, towards: int | None = None, share: float = 0.0) -> NDArray[np.float32]:
    """A unit embedding; different numbers are orthogonal. With `towards`, mixed by `share` with that one."""
    vector = np.zeros(128, np.float32)
    vector[number] = 1
    if towards is not None:
        vector = vector * np.sqrt(1 - share**2)
        vector[towards] += share
    return vector


def view(
    points: NDArray[np.float64], *, embedding: NDArray[np.float32] | None = None, crowded: bool = False
) -> FaceView:
    plane = points[:468, :2]
    return FaceView(
        box=np.concatenate([plane.min(axis=0), plane.max(axis=0)]),
        points=points,
        score=0.9,
        presence=1.0,
        texture=np.full((SIZE, SIZE, 3), 0.5, np.float32),
        skin=atlas().inside.astype(np.float32),
        iris=None,
        embedding=embedding,
        crowded=crowded,
    )
