"""The period is exact: no look moves a later one."""

import pytest

from fakes.clock import FakeClock
from runward.app import record


@pytest.mark.parametrize(
    ("costs", "starts"),
    [
        ([1, 1, 1, 1], [0, 30, 60, 90]),
        ([29.9, 29.9, 29.9, 1], [0, 30, 60, 90]),
        ([45, 1, 1, 1], [0, 60, 90, 120]),
        ([0, 100, 0, 0], [0, 30, 150, 180]),
    ],
)
def test_looks_begin_at_multiples_of_the_interval_whatever_they_cost(costs, starts) -> None:
    clock = FakeClock()
    begin, seen, left = clock.mono(), [], list(costs)

    def look() -> str:
        seen.append(round(clock.mono() - begin, 6))
        clock.advance(left.pop(0))
        return "snapshot"

    class Sink:
        def write(self, snapshot) -> None:
            assert snapshot == "snapshot"

    def wait(seconds: float) -> bool:
        clock.advance(seconds)
        return False

    assert record.record(record.Plan(30.0, len(costs)), look, Sink(), clock, wait) == len(costs)
    assert seen == starts


def test_it_ends_when_told() -> None:
    class Sink:
        def write(self, snapshot) -> None:
            pass

    assert record.record(record.Plan(30.0), lambda: None, Sink(), FakeClock(), lambda _: True) == 1
