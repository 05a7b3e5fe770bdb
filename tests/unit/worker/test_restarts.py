from farm.worker.__main__ import LONGEST_PAUSE, SETTLED_SECONDS, Restarts


def test_a_program_that_keeps_ending_is_started_ever_later_and_said_to_be_in_trouble() -> None:
    now = 0.0
    restarts = Restarts(lambda: now)
    assert restarts.trouble == ""
    pauses = []
    for _ in range(8):
        waited = 0.0
        while not restarts.due(2):
            now += 0.5
            waited += 0.5
        pauses.append(waited)
        now += 0.1
        assert "exit code 2" in restarts.trouble
    assert pauses[0] == 0
    assert pauses == sorted(pauses)
    assert LONGEST_PAUSE - 1 <= pauses[-1] <= LONGEST_PAUSE


def test_a_program_that_has_settled_starts_afresh() -> None:
    now = 0.0
    restarts = Restarts(lambda: now)
    restarts.due(-9)
    now += SETTLED_SECONDS
    assert restarts.trouble == ""
    now += LONGEST_PAUSE + SETTLED_SECONDS
    assert restarts.due(-9)
    assert restarts.trouble == ""
