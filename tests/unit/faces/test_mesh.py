"""The mesh and its rasteriser."""

import numpy as np
import pytest

from farm.faces import mesh
from farm.faces.mesh import VERTICES, canonical_mesh, rasterise

PIXELS = canonical_mesh().uv * 100 - 0.5


def test_topology_is_one_disc_with_the_known_outline() -> None:
    face = canonical_mesh()
    edges: dict[tuple[int, int], int] = {}
    for a, b, c in face.triangles.tolist():
        for edge in ((a, b), (b, c), (c, a)):
            key = (min(edge), max(edge))
            edges[key] = edges.get(key, 0) + 1
    assert face.vertices.shape == (VERTICES, 3)
    assert len(face.triangles) == 898
    assert VERTICES - len(edges) + len(face.triangles) == 1
    assert {vertex for edge, count in edges.items() if count == 1 for vertex in edge} == set(mesh.OVAL)


def test_interpolation_of_an_affine_function_is_exact_but_beside_thin_triangles() -> None:
    raster = rasterise(PIXELS, (100, 100))
    values = PIXELS @ np.array([[0.5, -1.0], [0.25, 2.0]]) + [3, 4]
    spread = raster.interpolate(values)
    row, column = np.nonzero(raster.inside)
    expected = np.stack([column, row], axis=1) @ np.array([[0.5, -1.0], [0.25, 2.0]]) + [3, 4]
    assert raster.inside.mean() > 0.5
    apart = np.abs(spread[row, column] - expected).max(axis=1)
    assert np.mean(apart > 1e-3) < 0.02
    assert apart.max() < 1.1  # half a pixel
    assert (spread[~raster.inside] == -1).all()


def test_a_pixel_beyond_the_edge_of_a_thin_triangle_does_not_lead_far_away() -> None:
    points = np.array([[2.0, 5.3], [20.0, 5.6], [38.0, 5.3]])
    raster = rasterise(points, (12, 40), triangles=np.array([[0, 1, 2]], np.int32))
    values = raster.interpolate(np.array([[10.0], [90.0], [10.0]]))[raster.inside]
    assert raster.inside.sum() > 30
    assert values.min() >= 0
    assert values.max() <= 100


def test_barycentric_weights_sum_to_one_and_give_the_pixel_back() -> None:
    raster = rasterise(PIXELS, (100, 100))
    weights = raster.barycentric()[raster.inside]
    corners = PIXELS[raster.triangles[raster.ids[raster.inside]]]
    row, column = np.nonzero(raster.inside)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-4)
    np.testing.assert_allclose((weights[..., None] * corners).sum(axis=1), np.stack([column, row], 1), atol=1e-2)


def test_nearer_triangles_cover_farther_ones_and_backs_are_left_out() -> None:
    points = np.array([[0.0, 0], [0, 9], [9, 0], [0, 0], [0, 9], [9, 0], [0, 0], [9, 0], [0, 9]])
    triangles = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]], np.int32)
    depth = np.array([1.0, 1, 1, 5, 5, 5, 0, 0, 0])
    ids = rasterise(points, (10, 10), depth=depth, triangles=triangles).ids
    assert set(np.unique(ids)) == {-1, 0}


@pytest.mark.parametrize("outline", [mesh.RIGHT_EYE, mesh.LEFT_EYE, mesh.INNER_LIPS, mesh.OUTER_LIPS, mesh.OVAL])
def test_outlines_are_closed_curves_without_crossings(outline: tuple[int, ...]) -> None:
    points = canonical_mesh().vertices[list(outline), :2]
    turns = np.unwrap(np.arctan2(*(points - points.mean(axis=0)).T))
    assert len(set(outline)) == len(outline)
    assert abs(np.abs(turns[-1] - turns[0]) - 2 * np.pi) < 1.2
