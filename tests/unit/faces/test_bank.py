"""The bank of frames and the path through it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.bank import MOST, Bank, Gatherer
from farm.faces.bankpath import BankPath
from farm.faces.candidate import Candidate
from farm.faces.coverage import coverage, missing
from farm.faces.dressing import dressed
from farm.faces.expression import TRAITS, column, gaze
from farm.faces.identity import PreparedIdentity
from tests.unit.faces import people

SIDE = 64


def traits(**values: float) -> NDArray[np.float32]:
    row = np.zeros(len(TRAITS), np.float32)
    for name, value in values.items():
        row[column(name)] = value
    return row


def bank(*rows: NDArray[np.float32], clips: tuple[int, ...] = (), seconds: tuple[float, ...] = ()) -> Bank:
    n = len(rows)
    tones = np.linspace(40, 200, n).astype(np.uint8)
    return Bank(
        traits=np.array(rows),
        clips=np.array(clips or (0,) * n, np.int32),
        seconds=np.array(seconds or tuple(10.0 * number for number in range(n)), np.float32),
        sharpness=np.ones(n, np.float32),
        details=np.broadcast_to(tones[:, None, None, None], (n, SIDE, SIDE, 3)).copy(),
        skins=np.full((n, 128, 128), 255, np.uint8),
    )


REST, OPEN, SHUT = traits(), traits(jawOpen=0.8), traits(eyeBlinkLeft=0.9, eyeBlinkRight=0.9)
LEFT, RIGHT = traits(yaw=-30), traits(yaw=30)


def chosen(path: BankPath, rows: list[NDArray[np.float32]], here: int) -> list[int]:
    return [int(number) for number in path.shares(np.array(rows), here).argmax(axis=1)]


def test_each_region_takes_the_frame_that_fits_it() -> None:
    path = BankPath(bank(REST, OPEN, SHUT))
    assert chosen(path, [REST] * 9, 4) == [0, 0, 0]
    assert chosen(path, [OPEN] * 9, 4)[2] == 1
    assert chosen(path, [SHUT] * 9, 4)[1] == 2
    assert chosen(path, [OPEN + SHUT] * 9, 4)[1:] == [2, 1], "lids of one frame, lips of another"


def test_a_single_odd_frame_is_not_worth_a_jump_but_a_longer_change_is() -> None:
    path = BankPath(bank(LEFT, RIGHT))
    near = traits(yaw=-3)
    assert chosen(path, [near] * 8 + [traits(yaw=3)] + [near] * 8, 8)[0] == 0
    assert chosen(path, [LEFT] * 8 + [RIGHT] * 9, 8)[0] == 1


def test_moving_on_in_a_clip_is_cheaper_than_jumping_to_another() -> None:
    rows = (REST, traits(yaw=10), traits(yaw=10))
    near = BankPath(bank(*rows, clips=(0, 0, 1), seconds=(1.0, 1.05, 0.0)))
    shares = near.shares(np.array([REST] * 8 + [traits(yaw=10)] * 9), 9)
    assert shares[0, 1] > 0.5 > shares[0, 2]


def test_shares_sum_to_one_for_two_frames_at_most_and_switch_softly() -> None:
    rng = np.random.default_rng(3)
    path = BankPath(bank(*(traits(yaw=y, jawOpen=j) for y, j in rng.uniform((-30, 0), (30, 1), (12, 2)))))
    walk = [traits(yaw=float(y)) for y in np.linspace(-30, 30, 60)]
    found = np.array([path.shares(np.array(walk[n - 8 : n + 9]), 8) for n in range(8, 52)])
    np.testing.assert_allclose(found.sum(axis=2), 1, atol=1e-6)
    assert ((found > 0).sum(axis=2) <= 2).all()
    assert len({int(row.argmax()) for row in found[:, 0]}) > 2, "the path moves on"
    steps = np.abs(np.diff(found[:, 0], axis=0)).sum(axis=1) / 2
    assert np.median(steps) < 0.2


def test_frames_that_are_all_alike_give_one_of_them() -> None:
    assert BankPath(bank(REST, REST, REST, REST)).shares(REST[None], 0)[0].tolist() == [1, 0, 0, 0]


def test_a_face_wears_what_the_shares_say() -> None:
    who = replace(people.identity(), bank=bank(REST, OPEN, SHUT))
    plain = dressed(who, np.array([[1, 0, 0]] * 3, np.float32))
    np.testing.assert_allclose(plain.detail, 40 / 255, atol=1e-6)
    mixed = dressed(who, np.array([[0.5, 0, 0.5], [0, 0, 1], [0, 1, 0]], np.float32)).detail[..., 0] * 255
    assert mixed[SIDE - 4, SIDE // 2] == pytest.approx(120, abs=1), "skin: both halves"
    assert mixed.max() == pytest.approx(200, abs=1), "lids: the third frame"
    assert plain.embedding is who.embedding


def test_an_identity_keeps_its_bank_in_the_store() -> None:
    who = replace(people.identity(), bank=bank(REST, OPEN))
    again = PreparedIdentity.from_bytes(who.to_bytes()).bank
    for name in Bank.__slots__:
        np.testing.assert_array_equal(getattr(again, name), getattr(who.bank, name))
    assert len(PreparedIdentity.from_bytes(people.identity().to_bytes()).bank) == 0


def candidate(row: NDArray[np.float32], noise: float = 1.0, clip: int = 0) -> Candidate:
    points = np.zeros((478, 3))
    points[:, :2] = np.random.default_rng(1).uniform(10, 90, (478, 2))
    picture = np.random.default_rng(2).normal(128, 20 * noise, (100, 100, 3)).clip(0, 255).astype(np.uint8)
    return Candidate("clip", clip, 0.0, picture, points, np.zeros(128, np.float32), row, 80.0)


def test_what_is_alike_is_kept_once_and_the_sharper_one() -> None:
    gatherer = Gatherer()
    sharp = candidate(REST, noise=1.5)
    for one in (candidate(REST), sharp, candidate(traits(yaw=1)), candidate(OPEN)):
        gatherer.add(one)
    assert [kept is sharp for kept in gatherer.kept] == [True, False]


def test_a_bank_does_not_grow_without_end() -> None:
    gatherer = Gatherer()
    for yaw in np.linspace(-60, 60, 400):
        for jaw in (0.0, 0.5, 1.0):
            gatherer.add(candidate(traits(yaw=float(yaw), jawOpen=jaw)))
    yaws = [float(kept.traits[0]) for kept in gatherer.kept]
    assert len(yaws) == MOST
    assert min(yaws) < -50 < 50 < max(yaws)


def test_the_coverage_names_what_is_missing() -> None:
    found = {entry.name: entry.frames for entry in coverage(bank(REST, OPEN, LEFT))}
    assert found["frontal"] == 2
    assert found["mouth wide open"] == 1
    assert "eyes shut" in missing(bank(REST, OPEN, LEFT))
    assert "frontal" not in missing(bank(REST, OPEN, LEFT))


def test_gaze_is_told_by_where_the_irises_stand() -> None:
    points = np.zeros((478, 2))
    points[[33, 133, 362, 263]] = [[0, 0], [20, 0], [40, 0], [60, 0]]
    points[468], points[473] = [15, -2], [55, -2]
    assert gaze(points) == pytest.approx((0.5, 0.1))
