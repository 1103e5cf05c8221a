"""One measurement in a process of its own: a request as JSON on stdin, a figure as JSON on stdout.

Processor time is counted without the set-up, which is done and warmed before; `python -m runward.scan.measure`.
"""

import gc
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from runward.scan import patterns, reading, scanner, tailer

_PREFIX = 1 << 20


def ours(request: dict[str, Any]) -> dict[str, Any]:
    """The scanner over a whole file, captures decoded."""
    compiled = patterns.compile(request["patterns"], options=patterns.Options(engine=request["engine"]))
    _scan(compiled, request["path"], _PREFIX)
    begin = time.process_time()
    size, hits = _scan(compiled, request["path"], 1 << 62)
    spent = time.process_time() - begin
    return {"bytes": size, "cpu_s": spent, "hits": hits, "engine": compiled.engine.name}


def _scan(compiled: patterns.Compiled, path: str, limit: int) -> tuple[int, int]:
    lines = scanner.LineScanner(compiled)
    size = hits = 0
    for chunk in reading.LogFile(path).chunks():
        for hit in lines.feed(chunk.data, chunk.offset):
            _ = hit.groups
            hits += 1
        size += len(chunk.data)
        if size > limit:
            break
    return size, hits + len(lines.flush())


def loop(request: dict[str, Any]) -> dict[str, Any]:
    """What a plain watcher does: the text decoded, then every regex over all of it. On a prefix: it is slow."""
    regexes = [re.compile(pattern, re.MULTILINE) for pattern in request["patterns"]]
    size, spent = _PREFIX // 8, 0.0
    hits = 0
    while True:
        begin = time.process_time()
        with open(request["path"], encoding="utf-8", errors="replace", newline="") as file:
            text = file.read(size)
        hits = sum(len([match.groupdict() for match in regex.finditer(text)]) for regex in regexes)
        spent = time.process_time() - begin
        if spent > 0.3 or len(text) < size:
            return {"bytes": len(text.encode("utf-8", "replace")), "cpu_s": spent, "hits": hits}
        size *= 2


def idle(request: dict[str, Any]) -> dict[str, Any]:
    """A tick over many files in which nothing happens, and the bare read of each at its end."""
    folder, count = request["path"], int(request["files"])
    paths = [os.path.join(folder, f"{number:05}.log") for number in range(count)]
    for path in paths:
        with open(path, "wb") as file:
            file.write(b"iteration 1/ 9 | quiet\n" * 20)
    many = tailer.Many(patterns.compile(request["patterns"][:20]))
    for path in paths:
        many.add(path)
    for _ in range(2):
        list(many.tick())
    opened = [os.open(path, os.O_RDONLY) for path in paths[: count // 2]]
    ends = [os.fstat(fd).st_size for fd in opened]

    def bare() -> None:
        for fd, end in zip(opened, ends, strict=True):
            os.pread(fd, 65536, end)

    least = min(_spent(lambda: [None for _ in many.tick()]) for _ in range(9)) / count
    base = min(_spent(bare) for _ in range(9)) / len(opened)
    return {"tick_us": least * 1e6, "bare_us": base * 1e6}


def _spent(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


_KINDS = {"ours": ours, "loop": loop, "idle": idle}


def main() -> None:
    """Answer the request on stdin."""
    request = json.loads(sys.stdin.read())
    gc.collect()
    answer = _KINDS[request["kind"]](request)
    answer["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(answer))  # noqa: T201 -- its whole purpose


if __name__ == "__main__":
    main()
