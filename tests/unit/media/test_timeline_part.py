from fractions import Fraction

import numpy as np

from farm.media.timeline import Timeline


def whole() -> Timeline:
    pts = np.array([100, 140, 180, 230, 260], np.int64)
    duration = np.array([40, 40, 50, 30, 40], np.int64)
    key = np.array([True, False, False, True, False])
    return Timeline(
        Fraction(1, 1000), pts, duration, key, np.arange(5), np.array([1, 3]), np.array([2, 4]), decoded=True
    )


def test_a_part_knows_its_frames_at_their_own_indexes() -> None:
    part = Timeline.from_bytes(whole().part(2, 4).to_bytes())
    assert len(part) == 4
    assert part.pts[2:].tolist() == [180, 230]
    assert part.packet[2:].tolist() == [2, 3]
    assert part.end_pts(3) == 230
    assert part.concealed.tolist() == [3]
    assert part.damaged.tolist() == [2]
    assert part.decoded


def test_placeholders_are_in_order_and_of_no_packet() -> None:
    part = whole().part(3, 5)
    assert (np.diff(part.pts) > 0).all()
    assert (part.packet[:3] < 0).all()
    assert len(set(part.packet.tolist())) == len(part)
