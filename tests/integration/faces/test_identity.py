"""Identities from real pictures, good and bad."""

import io
import struct

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from farm.errors import InputError
from farm.faces.candidate import PictureBytes
from farm.faces.identity import PreparedIdentity, prepare_identity
from farm.inference.session import Models
from farm.sample import portrait_picture


def picture(name: str) -> NDArray[np.uint8]:
    return np.asarray(cv2.imread(str(portrait_picture(name))), np.uint8)


def encoded(pixels: NDArray[np.uint8], label: str = "picture 1", suffix: str = ".png") -> PictureBytes:
    return PictureBytes(cv2.imencode(suffix, pixels)[1].tobytes(), label)


def with_orientation(jpeg: bytes, orientation: int) -> bytes:
    """A JPEG with an EXIF block that says how it was held."""
    entry = struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0)
    tiff = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", 1) + entry + struct.pack("<I", 0)
    body = b"Exif\0\0" + tiff
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]


def group() -> NDArray[np.uint8]:
    left, right = picture("astronaut")[:500, :400], picture("grace_hopper")[:500, 60:460]
    return np.hstack([left, right])


def test_a_portrait_becomes_an_identity_without_its_hair(people: dict[str, PreparedIdentity]) -> None:
    who = people["astronaut"]
    assert who.embedding @ who.embedding == pytest.approx(1, abs=1e-5)
    assert who.used == ("astronaut",)
    assert 90 < who.resolution < 130
    assert who.iris is not None
    fringe = who.detail[70:90, 200:330].mean(axis=(0, 1))
    cheek = who.detail[260:280, 140:170].mean(axis=(0, 1))
    assert np.abs(fringe - cheek).max() < 0.2  # the hair itself is .4 darker


def test_an_identity_survives_the_store(people: dict[str, PreparedIdentity]) -> None:
    before = people["grace_hopper"]
    after = PreparedIdentity.from_bytes(before.to_bytes())
    for field in ("embedding", "detail", "texture", "skin", "shape", "iris", "lids", "portrait", "portrait_five"):
        np.testing.assert_array_equal(getattr(after, field), getattr(before, field))
    assert (after.resolution, after.used, after.outliers) == (before.resolution, before.used, before.outliers)


def test_the_way_a_phone_was_held_does_not_matter(models: Models, people: dict[str, PreparedIdentity]) -> None:
    lying = np.ascontiguousarray(np.rot90(picture("astronaut"), 1))
    data = with_orientation(cv2.imencode(".jpg", lying, [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes(), 6)
    who = prepare_identity([PictureBytes(data, "phone")], models)
    assert who.embedding @ people["astronaut"].embedding > 0.95
    eyes = who.portrait_five[1] - who.portrait_five[0]
    assert abs(np.degrees(np.arctan2(eyes[1], eyes[0]))) < 1


def test_a_chosen_face_of_several(models: Models, people: dict[str, PreparedIdentity]) -> None:
    who = prepare_identity([encoded(group())], models, face=1)
    assert who.embedding @ people["grace_hopper"].embedding > 0.8


def test_a_stranger_among_the_pictures_is_named(models: Models) -> None:
    portrait = picture("astronaut")
    pictures = [
        encoded(portrait, "front.png"),
        encoded(np.ascontiguousarray(portrait[:, ::-1]), "mirrored.png"),
        encoded(picture("grace_hopper"), "someone else.png"),
        encoded(np.asarray(cv2.convertScaleAbs(portrait, alpha=0.6), np.uint8), "dark.png"),
    ]
    who = prepare_identity(pictures, models)
    assert who.used == ("front.png", "mirrored.png", "dark.png")
    assert who.outliers == ("someone else.png",)


@pytest.mark.parametrize(
    ("pictures", "face", "words"),
    [
        ([], None, "No picture was given"),
        ([PictureBytes(b"this is text", "notes.jpg")], None, "notes.jpg: This is not a picture"),
        ([PictureBytes(b"", "empty.png")], None, "empty.png: This is not a picture"),
        ([encoded(np.full((300, 300, 3), 80, np.uint8), "wall.png")], None, "wall.png: No face was found"),
        ([encoded(group(), "group.png")], None, "group.png: 2 faces were found.*0 to 1 from left to right"),
        ([encoded(group(), "group.png")], 2, "group.png: Face 2 was chosen, but 2 were found"),
        (
            [encoded(np.asarray(cv2.resize(picture("astronaut"), (150, 150)), np.uint8), "tiny.png")],
            None,
            "tiny.png: The face is 3[0-9] pixels large; at least 48",
        ),
    ],
)
def test_bad_pictures_are_named_with_what_to_do(
    models: Models, pictures: list[PictureBytes], face: int | None, words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        prepare_identity(pictures, models, face=face)
    assert caught.value.do


def test_stored_bytes_hold_no_pickle(people: dict[str, PreparedIdentity]) -> None:
    with np.load(io.BytesIO(people["astronaut"].to_bytes()), allow_pickle=False) as stored:
        assert int(stored["version"]) == 3
