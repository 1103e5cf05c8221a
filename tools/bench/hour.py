"""An hour of log at 1,000 lines a second: is its end as cheap as its begin?"""

import json
import pathlib
import resource
import sys
import time
from typing import BinaryIO

from bench import place


def flat(lines: int) -> dict:
    """An hour of log at 1,000 lines a second, read as fast as it goes: CPU and memory of its first and last tenth."""
    here = place.Place()
    found = place.apart("hour", str(lines), env=here.env, cwd=here.work)
    here.close()
    return found


def read_hour(lines: int) -> None:
    """In a process of its own: one more piece of log a tick, then a tick."""
    from runward.app import following
    from runward.core import progress, stall
    from runward.wiring import clock, diagnose

    path = pathlib.Path("hour.log")
    clocks = clock.SystemClock()
    standing = following.Standing(progress.Tracker(), stall.begin(0.0))
    follower = following.Follower(diagnose.engine(), lambda: [stream], clocks, standing)
    stream = _File(path)
    tenths, piece = [], 10_000
    with path.open("a") as out:
        for tenth in range(10):
            used = 0.0
            for start in range(tenth * lines // 10, (tenth + 1) * lines // 10, piece):
                out.writelines(
                    f"step {n}/{lines} loss 0.{n % 1000:03d} lr 1e-4\n" for n in range(start, start + piece)
                )
                out.flush()
                began = time.process_time()
                while follower.advance():
                    pass
                used += time.process_time() - began
            rss = (
                int(pathlib.Path("/proc/self/statm").read_text().split()[1])
                * resource.getpagesize()
                / (1 << 20)
            )
            tenths.append({"us_a_line": used / (lines / 10) * 1e6, "rss_mb": rss})
    print(json.dumps({"lines": lines, "first": tenths[1], "last": tenths[-1], "tenths": tenths}))


class _File:
    """A growing file as a log stream."""

    rank = None

    def __init__(self, path: pathlib.Path) -> None:
        self.name = str(path)
        self._path, self._at = path, 0
        self._file: BinaryIO | None = None  # opened when there is something to read

    def read_new(self, budget: int) -> list:
        from runward import ports

        self._file = self._file or self._path.open("rb")
        data = self._file.read(budget)
        self._at += len(data)
        return [ports.Chunk(self._at - len(data), data)] if data else []


def rows(found: dict) -> list[place.Row]:
    """As `start_up.rows`."""
    first, last = found["first"], found["last"]
    return [
        ("an hour of log: CPU a line, last tenth / second", last["us_a_line"] / first["us_a_line"], 1.2, "x"),
        ("an hour of log: memory gained", last["rss_mb"] - first["rss_mb"], 2, "MB"),
    ]


if __name__ == "__main__":
    read_hour(int(sys.argv[1]))
