"""The search for faces: angles, tiles, and the settings of a recipe."""

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.detect import Detection, distinct
from farm.faces.finder import DetectSettings, Finder, detect_settings, in_tiles
from farm.recipe import DetectorSpec, Recipe, preset, tuned

Picture = NDArray[np.uint8]


class Marks:
    """Finds white squares that have a grey strip at their right, and are at least 16 of 640 pixels large."""

    sure = 0.9

    def __init__(self) -> None:
        self.looks = 0

    def upright(self, picture: Picture) -> list[Detection]:
        self.looks += 1
        side = max(picture.shape[:2])
        found = []
        for y, x in np.argwhere(picture[:, :, 0] == 255):
            size = 1
            while x + size < picture.shape[1] and picture[y, x + size, 0] == 255:
                size += 1
            first = (y == 0 or picture[y - 1, x, 0] != 255) and (x == 0 or picture[y, x - 1, 0] != 255)
            follows = x + size < picture.shape[1] and picture[y, x + size, 0] == 128
            beyond = [picture[max(0, y - 1), x : x + size, 0], picture[y : y + size, max(0, x - 1), 0]]
            whole = bool((picture[y : y + size, x : x + size, 0] == 255).all())
            square = whole and not any((edge == 255).any() for edge in beyond)  # a mark that leans is none
            if first and follows and square and size * 640 / side >= 16:
                box = np.array([x, y, x + size, y + size], np.float64)
                found.append(Detection(box, np.tile(box[:2], (5, 1)), 0.95))
        return found


def canvas(*marks: tuple[int, int, int], size: tuple[int, int] = (300, 1280)) -> Picture:
    picture = np.zeros((*size, 3), np.uint8)
    for x, y, side in marks:
        picture[y : y + side, x : x + side] = 255
        picture[y : y + side, x + side : x + side + 4] = 128
    return picture


def boxes(faces: list[Detection]) -> list[tuple[int, ...]]:
    return sorted(tuple(int(edge) for edge in face.box) for face in faces)


def test_small_faces_are_found_in_tiles_each_once() -> None:
    picture = canvas((100, 40, 18), (626, 100, 20), (900, 150, 60))
    assert boxes(Finder(Marks(), DetectSettings())(picture)) == [(900, 150, 960, 210)]
    small = Finder(Marks(), DetectSettings(smallest=16))(picture)
    assert boxes(small) == [(100, 40, 118, 58), (626, 100, 646, 120), (900, 150, 960, 210)]


@pytest.mark.parametrize("x", range(580, 660, 7))
def test_a_face_on_a_seam_is_found_whole(x: int) -> None:
    (face,) = distinct(in_tiles(Marks().upright, canvas((x, 40, 18)), 640, 32))
    assert boxes([face]) == [(x, 40, x + 18, 58)]


def test_small_is_counted_in_the_plates_pixels() -> None:
    finder = Finder(Marks(), DetectSettings(smallest=32))
    assert len(finder(canvas((100, 40, 18)))) == 0
    assert len(finder(canvas((100, 40, 18)), shrunk=2.0)) == 1


def test_a_plate_that_one_look_covers_is_looked_at_once() -> None:
    marks = Marks()
    Finder(marks, DetectSettings(smallest=16))(canvas((100, 40, 30), size=(300, 600)))
    assert marks.looks == 1


def test_faces_that_lie_beside_faces_that_stand_need_every_turn() -> None:
    picture = canvas((100, 40, 40), size=(600, 600))
    lying = np.rot90(canvas((80, 300, 50), size=(600, 600)), 1)
    both = np.maximum(picture, lying)
    assert boxes(Finder(Marks(), DetectSettings())(both)) == [(100, 40, 140, 80)]
    assert boxes(Finder(Marks(), DetectSettings(turned="always"))(both)) == [(100, 40, 140, 80), (300, 469, 350, 519)]
    assert boxes(Finder(Marks(), DetectSettings())(lying)) == [(300, 469, 350, 519)]
    assert boxes(Finder(Marks(), DetectSettings(turned="never"))(lying)) == []


def test_a_recipe_names_its_detector_and_keeps_its_digest_without_one() -> None:
    plain = preset("swap")
    assert "detector" not in plain.model_dump(mode="json")
    assert Recipe.model_validate(plain.model_dump()) == plain
    chosen = tuned(plain, {"detect": {"model": "scrfd-2.5g", "smallest": 16}})
    assert chosen.detector == DetectorSpec(model="scrfd-2.5g", settings={"smallest": 16})
    assert chosen.digest() != plain.digest()
    assert Recipe.model_validate(chosen.model_dump(mode="json")) == chosen
    assert tuned(plain, {"detect": {}}).digest() == plain.digest()


def test_wrong_searches_are_refused_by_name() -> None:
    with pytest.raises(RecipeError, match="'turned' is wrong"):
        detect_settings(DetectorSpec(settings={"turned": "upwards"}))
    with pytest.raises(RecipeError, match="'size' is wrong"):
        detect_settings(DetectorSpec(settings={"size": 3}))
    with pytest.raises(RecipeError, match="looks for no faces"):
        tuned(preset("passthrough"), {"detect": {"smallest": 16}})
