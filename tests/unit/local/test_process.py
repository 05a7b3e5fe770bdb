from __future__ import annotations

import pytest

from farm.local.process import MARK, Service, backoff


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0.0), (1, 0.0), (2, 0.2), (3, 0.4), (4, 0.8), (8, 10.0), (99, 10.0)]
)
def test_the_first_restart_is_at_once_and_the_pauses_grow_to_ten_seconds(failures: int, seconds: float) -> None:
    assert backoff(failures) == pytest.approx(seconds)


def test_a_service_carries_the_mark_of_its_instance_only() -> None:
    service = Service(name="api", argv=("x",), env={"A": "1", MARK: "other/api"})
    assert service.environment("i1") == {"A": "1", MARK: "i1/api"}
