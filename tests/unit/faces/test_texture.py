"""Unrolling, skin, shading, and hair taken out of an identity."""

import numpy as np

from farm.faces.bare import bare_skin, bared, in_view
from farm.faces.texture import SIZE, atlas, sampled, shading, skin, smoothstep, unwrap
from tests.unit.faces.people import head

SKIN = np.array([0.75, 0.55, 0.45], np.float32)
HAIR = np.array([0.25, 0.15, 0.08], np.float32)


def face() -> np.ndarray:
    """A texture of skin with dark hair from the top down to just above the brows and on one side."""
    texture = np.ones((SIZE, SIZE, 3), np.float32) * SKIN
    texture[:24] = HAIR
    texture[:, 112:] = HAIR
    return texture * atlas().inside[..., None]


def test_unrolling_reads_the_picture_where_the_landmarks_are() -> None:
    row, column = np.mgrid[:240, :320].astype(np.float32)
    picture = np.stack([column / 320, row / 240, (row + column) / 560], axis=2)
    straight = unwrap(picture, head())
    place = atlas()
    spot = (head()[place.corners][..., :2] * place.weights[..., None]).sum(axis=1)
    np.testing.assert_allclose(straight[place.inside][:, 0], spot[:, 0] / 320, atol=2e-3)
    assert (straight[~place.inside] == 0).all()
    as_bytes = unwrap(np.round(picture * 255).astype(np.uint8), head())
    np.testing.assert_allclose(as_bytes, straight, atol=5e-3)


def test_skin_is_told_from_hair() -> None:
    mask = skin(face())
    assert mask[60:90, 40:80].min() > 0.95
    assert mask[12:20, 50:80].max() < 0.1
    assert mask[50:70, 116:124].max() < 0.1


def test_everything_above_the_first_hair_is_hair() -> None:
    texture = face()
    texture[10:16] = SKIN * atlas().inside[10:16, :, None]  # skin-coloured light on the hair
    assert bare_skin(texture)[11:15, 50:80].max() < 0.05


def test_hair_is_replaced_by_the_skin_around_it_and_skin_is_kept() -> None:
    texture = face()
    known = bare_skin(texture)
    plain = bared(texture, known)
    inside = atlas().inside
    assert np.abs(plain[inside] - SKIN).max() < 0.12
    np.testing.assert_allclose(plain[60:90, 40:80], texture[60:90, 40:80], atol=1e-3)


def test_shading_counts_only_what_it_is_told_to() -> None:
    texture = np.ones((SIZE, SIZE, 3), np.float32) * 0.5
    texture[:, :64] = 0.1
    weight = np.zeros((SIZE, SIZE), np.float32)
    weight[:, 64:] = 1
    light = shading(texture, weight, 0.1)
    np.testing.assert_allclose(light[:, 64:], 0.5, atol=0.01)


def test_sampling_hits_pixel_centres_and_smoothstep_its_ends() -> None:
    picture = np.arange(12, dtype=np.float32).reshape(3, 4)
    spot = np.array([[[2.0, 1.0], [9.0, 9.0]]], np.float32)
    np.testing.assert_allclose(sampled(picture, spot), [[6, 11]])
    np.testing.assert_allclose(smoothstep(np.array([-1.0, 0, 0.5, 1, 2]), 0, 1), [0, 0, 0.5, 1, 1])


def test_a_cheek_in_the_shade_is_skin() -> None:
    texture = face()
    shade = smoothstep(np.arange(SIZE)[None, :], 100, 84) * 0.34 + 0.66  # two fifths of the light are left at one side
    texture *= shade[..., None].astype(np.float32)
    for mask in (skin(texture), bare_skin(texture)):
        assert mask[60:86, 84:104].min() > 0.9
        assert mask[12:20, 50:80].max() < 0.1  # hair on the forehead is not taken for shade


def test_what_a_face_shows_edge_on_is_not_trusted() -> None:
    skin_everywhere = atlas().inside.astype(np.float32)
    straight, turned = (in_view(skin_everywhere, head(yaw=yaw)) for yaw in (0, 50))
    assert straight[60:90, 20:108].min() > 0.95
    cheeks = [turned[60:90, columns].mean() for columns in (slice(12, 24), slice(104, 116))]
    assert max(cheeks) > 0.95
    assert min(cheeks) < 0.1
    assert turned[atlas().core > 0.99].min() > 0.95


def test_a_portraits_teeth_are_replaced_by_its_lips_up_to_their_rim() -> None:
    side = 4 * SIZE
    place = atlas(side)
    lips = np.array([0.6, 0.3, 0.3], np.float32)
    texture = np.ones((side, side, 3), np.float32) * SKIN
    texture[place.lips > 0.5] = lips
    texture[place.mouth > 0.5] = 0.95
    plain = bared(texture, np.ones((SIZE, SIZE), np.float32))
    mouth = place.mouth > 0.99
    assert mouth.sum() > 200
    assert np.abs(plain[mouth] - lips).max() < 0.2
    cheeks = place.cheeks > 0.99
    np.testing.assert_allclose(plain[cheeks], texture[cheeks], atol=1e-6)
