"""A long log that grows by a line, under a monitoring configuration."""

import json
import pathlib
import statistics
import sys
import tempfile
import time

from bench import place


def growing(polls: int) -> dict:
    """As `grown`, in a process of its own: the text that it keeps to read anew is large."""
    return place.apart("growing", str(polls))


def grown(polls: int, megabytes: int = 60) -> dict:
    """CPU time of a poll of a long log that has grown by one line: signals of a monitoring preset, and reading it anew.

    Reading anew is what monitors do that keep the text they saw and look for what is behind it.
    """
    from runward.app import signalling
    from runward.config import autoexp_files
    from runward.core import log_matching
    from runward.runners import local
    from runward.scan import tailer
    from runward.wiring import clock

    line = (
        " [2026-01-01 00:00:{:02d}] iteration {:8d}/ 1000000 | consumed samples: {:12d} | elapsed time per iteration "
        "(ms): 1003.1 | learning rate: 1.0E-04 | global batch size: 256 | lm loss: 2.5E+00 | grad norm: 0.2 | "
        "number of skipped iterations: 0 | number of nan iterations: 0 |\n"
    )
    with tempfile.TemporaryDirectory(prefix="runward-bench-") as folder:
        log = pathlib.Path(folder) / "train.log"
        with log.open("w") as file:
            i = 0
            while file.tell() < megabytes << 20:
                file.writelines(line.format(n % 60, n, n * 256) for n in range(i, i + 1000))
                i += 1000
        monitor = autoexp_files.monitoring("megatron_production")
        matcher = log_matching.Matcher(monitor.signals)
        streams = [tailer.FileLog(str(log), look_s=0.0)]
        means = signalling.Means(
            monitor, lambda _: streams, local.Local(), clock.SystemClock(), folder, folder
        )
        ours = signalling.Signalling(means)
        ours._take_up("1@0", 1)
        attempt = ours._attempt
        assert attempt is not None

        def look() -> None:
            while ours._advance(attempt):
                pass

        seen = log.read_text("utf-8", "ignore")

        def anew() -> None:
            nonlocal seen
            text = log.read_text("utf-8", "ignore")
            new = text.removeprefix(seen)
            seen = text
            for one in new.splitlines():
                list(matcher.line(one))

        found: dict = {"megabytes": megabytes, "polls": polls}
        for name, poll in (("ours", look), ("anew", anew)):
            began = time.thread_time()
            poll()
            first = time.thread_time() - began
            took = []
            for n in range(polls):
                with log.open("a") as file:
                    file.write(line.format(n % 60, i + n, 0))
                began = time.thread_time()
                poll()
                took.append((time.thread_time() - began) * 1e3)
            found[name] = {"first_s": first, "poll_ms": statistics.median(took)}
        found["ratio"] = found["anew"]["poll_ms"] / found["ours"]["poll_ms"]
    return found


def rows(found: dict) -> list[place.Row]:
    """As `start_up.rows`."""
    what = f"a log of {found['megabytes']} MB that grew by a line"
    return [
        (f"a log of {found['megabytes']} MB: CPU of the first look", found["ours"]["first_s"], 1.5, "s"),
        (f"{what}: CPU a poll", found["ours"]["poll_ms"], 1, "ms"),
        (f"{what}: share of reading it anew", 1 / found["ratio"], 0.05, "x"),
    ]


if __name__ == "__main__":
    print(json.dumps(grown(int(sys.argv[1]))))
