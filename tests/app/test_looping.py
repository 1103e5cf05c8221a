"""The loop over runs: whose turn it is, and whom a request does not keep waiting."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from runward import ports
from runward.app import looping, waking, watching
from runward.store import sqlite


@dataclass
class Driver:
    row: ports.RunRow
    store: sqlite.SqliteStore


@dataclass
class Watch:
    """A run of a slow place: its next tick is a minute away."""

    driver: Driver
    ticks: list[float] = field(default_factory=list)
    due: bool = False
    done: bool = False

    def tick(self, *, asked: bool = True) -> None:
        self.ticks.append(time.monotonic())
        if not asked:
            return
        open_ones = self.driver.store.requests(self.driver.row.id)
        for request in open_ones:
            self.driver.store.answer(request.id, 1.0)
            self.done = True

    def prepare(self) -> None:
        pass

    def stirred(self) -> bool:
        return False

    def due_in(self) -> float:
        return 60.0

    def wait_fds(self) -> list[int]:
        return []

    def close(self) -> None:
        pass


class Alarm:
    """Sleeps a little instead of long; another process leaves its request during the first sleep."""

    told = False

    def __init__(self, ask: Any) -> None:
        self._ask = ask
        self._slept_s = 0.0

    def readable(self) -> list[int]:
        return []

    def sleep(self, seconds: float, descriptors: Iterable[int] = ()) -> list[int]:
        del descriptors
        if self._ask is not None:
            self._ask()
            self._ask = None
        self._slept_s += seconds
        assert self._slept_s < 120 * 60, "the request was never found"
        time.sleep(0.02)
        return []


def test_a_request_to_one_of_many_runs_of_a_slow_place_is_found_between_its_ticks(tmp_path: Path) -> None:
    store = sqlite.SqliteStore(str(tmp_path))
    asked, other = (Watch(Driver(store.create(name, 1.0), store)) for name in ("asked", "other"))
    elsewhere = sqlite.SqliteStore(str(tmp_path))
    request = ports.Request(0, "stop", "ann", 1.0, {})
    alarm = Alarm(lambda: elsewhere.ask(asked.driver.row.id, request))
    watches = [cast("watching.RunWatch", asked), cast("watching.RunWatch", other)]
    loop = looping.Loop(watches, cast("waking.Alarm", alarm), lambda _: None)
    asked_done = asked
    loop.more = lambda: [] if not asked_done.done else _leave(loop)
    loop.run()
    assert len(asked.ticks) == 2, "once at the start, once for the request"
    assert len(other.ticks) == 1, "nobody asked it for anything, and it was not due"


def _leave(loop: looping.Loop) -> list[watching.RunWatch]:
    loop.leaving = True
    return []
