"""A long log that grows by a line, under a monitoring configuration."""

import pathlib
import statistics
import tempfile
import time


class _Still:
    """A clock that nobody reads."""

    def wall(self) -> float:
        return 0.0

    def mono(self) -> float:
        return 0.0


def growing(polls: int, megabytes: int = 60) -> dict:
    """CPU time of a poll of a long log that has grown by one line: signals of a monitoring preset, and reading it anew.

    Reading anew is what monitors do that keep the text they saw and look for what is behind it.
    """
    from runward.app import signalling
    from runward.config import autoexp_files
    from runward.core import log_matching
    from runward.runners import local
    from runward.scan import tailer

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
        means = signalling.Means(monitor, lambda _: streams, local.Local(), _Still(), folder, folder)
        ours = signalling.Signalling(means)
        ours._take_up("1@0", 1)

        def look() -> None:
            while ours._advance(ours._attempt):
                pass

        seen = log.read_text("utf-8", "ignore")

        def anew() -> None:
            nonlocal seen
            text = log.read_text("utf-8", "ignore")
            new = text[len(seen) :] if text.startswith(seen) else text
            seen = text
            for one in new.splitlines():
                list(matcher.line(one))

        found = {"megabytes": megabytes, "polls": polls}
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


def rows(found: dict) -> list[tuple[str, float, float | None, str]]:
    """As `start_up.rows`."""
    what = f"a log of {found['megabytes']} MB that grew by a line"
    return [
        (f"a log of {found['megabytes']} MB: CPU of the first look", found["ours"]["first_s"], 1.5, "s"),
        (f"{what}: CPU a poll", found["ours"]["poll_ms"], 1, "ms"),
        (f"{what}: share of reading it anew", 1 / found["ratio"], 0.05, "x"),
    ]
