"""What lies around a network: what it is shown, where the face is cut and laid back, masks, settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.geometry import five_points
from farm.faces.identity import PreparedIdentity
from farm.faces.neural_align import aligned, lay_back
from farm.faces.neural_cover import Cover
from farm.faces.neural_settings import MaskSettings
from farm.faces.neural_source import Runs
from farm.faces.processors import check_settings
from farm.faces.target import Target
from farm.faces.texture import SIZE
from farm.inference.templates import template
from farm.media.colour import paste_rgb, region_to_rgb
from farm.media.facts import ColourFacts
from farm.media.frame import Frame, SampleFormat
from farm.media.tonemap import tone_map_of
from farm.recipe import PRESETS, ProcessorSpec, Recipe
from tests.unit.faces.people import COLOUR, frame, head, identity

PQ = ColourFacts(primaries="bt2020", transfer="smpte2084", matrix="bt2020nc", range="tv", chroma_location="topleft")
HLG = PQ.model_copy(update={"transfer": "arib-std-b67"})
WIDE = PQ.model_copy(update={"transfer": "bt2020-10"})
TEN = SampleFormat("yuv420p10le", "yuv", 10, 1, 1, False)
SDR = tone_map_of(COLOUR)


def ten_bit(colour: ColourFacts) -> Frame:
    """A 10-bit patch of skin tones and highlights, 128 x 128, inside BT.709's colours."""
    rows, columns = np.mgrid[0:128, 0:128].astype(np.float32) / 127
    tone = np.stack([0.30 + 0.35 * rows, 0.27 + 0.30 * rows + 0.02 * columns, 0.25 + 0.28 * rows], axis=2)
    planes = (np.zeros((128, 128), np.uint16), np.full((64, 64), 512, np.uint16), np.full((64, 64), 512, np.uint16))
    made = Frame(planes, TEN, colour, pts=0, index=0)
    paste_rgb(made, (0, 0, 128, 128), tone.astype(np.float32), np.ones((128, 128), np.float32))
    return made


@pytest.mark.parametrize("colour", [PQ, HLG, WIDE])
def test_a_ten_bit_patch_comes_back_within_half_a_code(colour: ColourFacts) -> None:
    plate = ten_bit(colour)
    before = [plane.astype(int) for plane in plate.planes]
    look, box = tone_map_of(colour), (0, 0, 128, 128)
    rgb = region_to_rgb(plate, box)
    seen = look.seen(rgb)
    assert seen.min() >= 0
    assert seen.max() <= 1
    paste_rgb(plate, box, look.back(seen, rgb), np.ones((128, 128), np.float32))
    luma = np.abs(plate.planes[0].astype(int) - before[0])
    assert luma.max() <= 1
    assert luma.mean() < 0.02
    assert max(np.abs(plate.planes[n].astype(int) - before[n]).max() for n in (1, 2)) <= 1


@pytest.mark.parametrize("colour", [PQ, HLG])
def test_the_way_back_alone_is_exact_where_the_network_saw_everything(colour: ColourFacts) -> None:
    """Without the part that is put back unseen: the curve itself loses less than a tenth of a 10-bit code."""
    look = tone_map_of(colour)
    rgb = region_to_rgb(ten_bit(colour), (0, 0, 128, 128))
    inside = (look._shown(rgb) >= 0).all(axis=2)
    assert inside.mean() > 0.9
    assert np.abs(look._plate(look.seen(rgb)) - rgb)[inside].max() * 1023 < 0.1


@pytest.mark.parametrize("colour", [PQ, HLG, WIDE])
def test_a_glimpse_is_what_models_see_within_two_codes(colour: ColourFacts) -> None:
    tones = tone_map_of(colour)
    rgb = region_to_rgb(ten_bit(colour), (0, 0, 128, 128))
    exact = tones.seen(rgb) * 255
    assert np.abs(tones.glimpse(rgb) - exact).max() < 2.5
    assert np.abs(tones.glimpse(rgb) - exact).mean() < 0.5


def test_diffuse_white_and_skin_lie_where_networks_expect_them() -> None:
    white = tone_map_of(PQ).seen(np.full((1, 1, 3), 0.5806, np.float32))
    assert 0.8 < white.mean() < 0.93
    grey = tone_map_of(HLG).seen(np.full((1, 1, 3), 0.38, np.float32))  # 18 % of diffuse white
    assert grey.mean() == pytest.approx(0.18 ** (1 / 2.2), abs=0.02)


def test_a_network_that_paints_white_paints_no_lightning() -> None:
    look = tone_map_of(PQ)
    plate = np.full((4, 4, 3), 0.4, np.float32)
    made = look.back(np.ones((4, 4, 3), np.float32), plate)
    assert made.max() == pytest.approx(0.5806, abs=0.01)  # 203 cd/m², not 10000


def test_plain_plates_are_shown_as_they_are_and_keep_what_rgb_cannot_say() -> None:
    rgb = np.array([[[-0.05, 0.5, 1.1]]], np.float32)
    assert SDR.seen(rgb).tolist() == [[[0, 0.5, 1]]]
    np.testing.assert_allclose(SDR.back(SDR.seen(rgb), rgb), rgb, atol=1e-6)


def busy() -> Frame:
    rows, columns = np.mgrid[0:240, 0:320]
    return frame((110 + 60 * np.sin(rows / 17) * np.cos(columns / 23)).astype(np.uint8))


@pytest.mark.parametrize(("roll", "size"), [(0.0, 160.0), (35.0, 160.0), (180.0, 60.0), (0.0, 400.0)])
def test_a_crop_laid_back_as_it_was_changes_almost_nothing(roll: float, size: float) -> None:
    plate, before = busy(), busy()
    points = head(roll=roll, size=size)
    face = aligned(plate, five_points(points), "arcface_128", 256, SDR)
    assert face is not None
    moved = face.to_crop(five_points(points))
    assert (np.abs(moved - template("arcface_128", 256)) < 0.09 * 256).all()
    mask = lay_back(plate, face, face.crop, np.ones((256, 256), np.float32))
    assert mask is not None
    assert mask.max() > 0.99
    assert np.abs(plate.planes[0].astype(int) - before.planes[0]).max() <= 3


def test_what_is_not_finite_is_not_laid_back() -> None:
    plate, before = busy(), busy()
    face = aligned(plate, five_points(head()), "ffhq_512", 128, SDR)
    assert face is not None
    assert lay_back(plate, face, np.full((128, 128, 3), np.nan, np.float32), np.ones((128, 128), np.float32)) is None
    assert (plate.planes[0] == before.planes[0]).all()


def test_a_face_beside_the_frame_is_none() -> None:
    assert aligned(busy(), five_points(head(centre=(-400, 120))), "ffhq_512", 128, SDR) is None
    assert aligned(busy(), np.zeros((5, 2)), "ffhq_512", 128, SDR) is None


class NoModels:
    def load(self, name: str, precision: str | None = None) -> Runs:
        raise AssertionError(name)

    weights = load


def covered(**settings: object) -> NDArray[np.float32]:
    points = head()
    face = aligned(busy(), five_points(points), "ffhq_512", 128, SDR)
    assert face is not None
    texture = np.zeros((SIZE, SIZE, 3), np.float32)
    target = Target(points=points, texture=texture, skin=texture[..., 0])
    return Cover(NoModels(), MaskSettings.model_validate(settings)).of(face, target)  # type: ignore[arg-type]


def test_masks_combine_to_the_least() -> None:
    whole = covered()
    assert whole[64, 64] == 1
    assert whole[0].max() < 0.1
    face, lower, mouth = (covered(areas=[area]) for area in ("face", "lower-face", "mouth"))
    assert (face <= whole).all()
    assert mouth.sum() < lower.sum() < face.sum() < whole.sum()
    both = covered(areas=["upper-face", "lower-face"])
    assert both.sum() > covered(areas=["upper-face"]).sum()
    assert covered(areas=["face"], erode=0.05).sum() < face.sum()
    assert covered(areas=["face"], blur=0).max() == 1
    assert covered(padding=[0, 0, 40, 0])[90:].max() < 0.5 < whole[90:].max()


def made(*processors: tuple[str, str, dict[str, object]]) -> Recipe:
    specs = tuple(ProcessorSpec(kind=kind, model=model, settings=settings) for kind, model, settings in processors)
    return Recipe(name="a-test", processors=specs)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (made(("swap", "inswapper-128", {"wieght": 0.4})), r"processor 1 \(swap\).*'wieght' is wrong: Extra inputs"),
        (made(("swap", "inswapper-128", {"boost": 9})), "'boost' is wrong: .*less than or equal to 8"),
        (made(("swap", "inswapper-128", {"mask": {"areas": ["ear"]}})), r"'mask\.areas\.0' is wrong"),
        (made(("swap", "mesh-warp", {"boost": 2})), "'boost' is wrong: Extra"),
        (made(("restore", "gfpgan-1.4", {"scope": "all"})), "'scope' is wrong"),
        (made(("upscale", "span-x2", {})), "'scale' is wrong: Field required"),
        (made(("age", "age-fran", {})), "no processor of kind 'age'"),
        (
            made(("upscale", "span-x2", {"scale": 2}), ("restore", "gfpgan-1.4", {})),
            "works on faces and comes after one that works on whole frames",
        ),
    ],
)
def test_a_wrong_recipe_is_refused_by_name(recipe: Recipe, words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        check_settings(recipe)


def test_every_preset_has_good_settings_and_says_what_it_does_to_faces() -> None:
    for recipe in PRESETS.values():
        check_settings(recipe)
        assert recipe.title
    assert not PRESETS["upscale-span"].changes_faces
    assert not PRESETS["restore-frame"].changes_faces
    assert PRESETS["restore-gfpgan"].changes_faces
    assert not PRESETS["restore-gfpgan"].puts_in_faces
    assert PRESETS["swap+upscale"].scale == 2
    assert PRESETS["swap-inswapper+gfpgan"].puts_in_faces


def test_prepared_sources_travel_with_the_identity() -> None:
    given = replace(identity(), sources={"inswapper-128/abc": np.ones((1, 512), np.float32)})
    again = PreparedIdentity.from_bytes(given.to_bytes())
    np.testing.assert_array_equal(again.sources["inswapper-128/abc"], given.sources["inswapper-128/abc"])
    assert again.other_portraits.shape == (0, 512, 512, 3)
