import pytest

from farm.media.stills import is_clip


@pytest.mark.parametrize(
    ("head", "clip"),
    [
        (b"\x00\x00\x00\x20ftypisom", True),
        (b"\x00\x00\x00\x14ftypqt  ", True),
        (b"\x00\x00\x00\x20ftypheic", False),
        (b"\x00\x00\x00\x20ftypavif", False),
        (b"\x1a\x45\xdf\xa3\x01", True),
        (b"RIFF\x00\x00\x00\x00AVI LIST", True),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", False),
        ((b"\x47" + bytes(187)) * 3, True),
        (b"G" * 100, False),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", False),
        (b"\x89PNG\r\n\x1a\n", False),
        (b"this is text", False),
        (b"", False),
    ],
)
def test_clips_are_told_from_pictures_by_their_first_bytes(head: bytes, clip: bool) -> None:
    assert is_clip(head) is clip
