"""What one look at a far box said: the questions, the answer's text, and values in which None means unknown."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

BEGIN = "== runward probe 1 begins =="
END = "== runward probe 1 ends =="
_DF = r"(\d+)\s+(\d+)\s+(-?\d+)\s+(\d+)%"
_GPU = r"\s*(\d+)\s*,\s*([^,]*),\s*([^,]*),\s*([^,]*),\s*([^,]*)"
_NO_LIMIT = 1 << 60
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Questions(NamedTuple):
    """What to look at, beside the box itself."""

    match: str | None = "train"
    """Extended regular expression for command lines."""
    logs: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    """Result files, and directories of `*.json` results."""
    counts: tuple[str, ...] = ()
    """Directories whose files are counted."""
    exists: tuple[str, ...] = ()
    gpus: bool = True
    runs: bool = True

    def words(self) -> tuple[str, ...]:
        """`key=value` words; an answer refers to them by place."""
        words = [] if self.match is None else [f"match={self.match}"]
        words += (
            ["sessions=", "memory="] + (["gpus="] if self.gpus else []) + (["runs="] if self.runs else [])
        )
        for key, paths in (
            ("mount", self.mounts), ("log", self.logs), ("ckpt", self.checkpoints), ("marker", self.markers),
            ("result", self.results), ("count", self.counts), ("exists", self.exists),
        ):  # fmt: skip
            words += [f"{key}={path}" for path in paths]
        return tuple(words)

    def script(self, probe: str) -> bytes:
        """What `sh -s` is given: the words, quoted, and the probe's text."""
        line = "set -- " + shlex.join(self.words()) + "\n"
        return (line + probe).encode("utf-8", "surrogateescape")


class LogFacts(NamedTuple):
    """The tail (1 MiB) of a log."""

    path: str
    why: str | None = None
    """Why nothing is known."""
    size: int | None = None
    mtime: float | None = None
    inode: int | None = None
    last: str = ""
    steps: tuple[str, ...] = ()
    """Its last lines that tell of progress, at most six."""
    epoch: str | None = None
    step_at: int = 0
    crashes: int = 0
    crash_at: int = 0
    crash: str = ""
    full_at: int = 0
    """Line of the last sign of a full disk."""
    done_at: int = 0
    done: str = ""

    @property
    def crashed_last(self) -> bool:
        """No progress was written after the last crash line: it is not history."""
        return self.crash_at > max(self.step_at, self.done_at)


class Disk(NamedTuple):
    """Space of a mount in use, percent."""

    path: str
    why: str | None = None
    bytes_pct: int | None = None
    free_bytes: int | None = None
    inodes_pct: int | None = None


class Folder(NamedTuple):
    """A checkpoint directory, by name and time only."""

    path: str
    why: str | None = None
    newest_at: float | None = None
    names: tuple[str, ...] = ()
    """Newest first."""
    latest: str | None = None


class Result(NamedTuple):
    """A result file or directory."""

    path: str
    present: bool | None = None
    files: int | None = None
    """Results in a directory."""
    lines: tuple[str, ...] = ()


class Gpu(NamedTuple):
    """One GPU; the highest use of the samples."""

    number: int
    util_pct: float | None
    used_mib: float | None
    total_mib: float | None


class Facts(NamedTuple):
    """One look. None: not known, `whys` says why where the box did."""

    complete: bool
    """The end marker was seen."""
    now: float | None = None
    boot_id: str | None = None
    uptime_s: float | None = None
    load: float | None = None
    cpus: int | None = None
    tools: frozenset[str] = frozenset()
    processes: int | None = None
    process_lines: tuple[str, ...] = ()
    threads: int | None = None
    tmux: tuple[str, ...] | None = None
    squeue: int | None = None
    jobs: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    mem_current: int | None = None
    mem_max: int | None = None
    oom_kill: int | None = None
    disks: tuple[Disk, ...] = ()
    logs: tuple[LogFacts, ...] = ()
    folders: tuple[Folder, ...] = ()
    markers: Mapping[str, bool | None] = _NOTHING
    results: tuple[Result, ...] = ()
    counts: Mapping[str, int | None] = _NOTHING
    exists: Mapping[str, bool | None] = _NOTHING
    runs: str | None = None
    """`runward ps --json` of the box."""
    handbooks: Mapping[str, str] = _NOTHING
    """Name of a run or chain there -> its page."""
    whys: Mapping[str, str] = _NOTHING


class _Answer:
    """key -> values, in the order they came."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.values: dict[str, list[str]] = {}
        for line in lines:
            key, found, value = line.partition("=")
            if found:
                self.values.setdefault(key, []).append(value)

    def all(self, key: str) -> tuple[str, ...]:
        return tuple(self.values.get(key, ()))

    def one(self, key: str) -> str | None:
        found = self.values.get(key)
        return found[-1] if found else None

    def number(self, key: str) -> float | None:
        return number(self.one(key))

    def whole(self, key: str) -> int | None:
        found = self.number(key)
        return int(found) if found is not None else None

    def flag(self, key: str) -> bool | None:
        return {"1": True, "0": False}.get(self.one(key) or "")


def number(text: str | None) -> float | None:
    """The number that `text` is, or None.

    >>> number("12"), number("max"), number("[N/A]"), number(None)
    (12.0, None, None, None)
    """
    if text is None or len(text) > 40 or not re.fullmatch(r" *-?[0-9]+(\.[0-9]+)? *", text):
        return None
    return float(text)


def parse(text: str, asked: Questions) -> Facts:
    """The answer as values; anything at all may stand in `text`."""
    answer, complete = _answer(text)
    places: dict[str, list[tuple[str, str]]] = {}
    for place, word in enumerate(asked.words()):
        key, _, value = word.partition("=")
        places.setdefault(key, []).append((str(place), value))
    limit = answer.whole("mem.max")
    return Facts(
        complete=complete,
        now=answer.number("now"),
        boot_id=answer.one("boot_id"),
        uptime_s=answer.number("uptime"),
        load=answer.number("load"),
        cpus=answer.whole("cpus"),
        tools=frozenset(tool for tool in ("python3", "runward", "rsync") if answer.one(tool)),
        processes=answer.whole("proc"),
        process_lines=tuple(line for i in range(3) for line in answer.all(f"proc.{i}")),
        threads=answer.whole("threads"),
        tmux=answer.all("tmux.name") if answer.one("tmux") is not None else None,
        squeue=answer.whole("squeue"),
        jobs=answer.all("squeue.job"),
        gpus=_gpus(answer.all("gpu")),
        mem_current=answer.whole("mem.current"),
        mem_max=limit if limit is not None and limit < _NO_LIMIT else None,
        oom_kill=answer.whole("oom_kill"),
        disks=tuple(_disk(answer, *one) for one in places.get("mount", ())),
        logs=tuple(_log(answer, *one) for one in places.get("log", ())),
        folders=tuple(_folder(answer, *one) for one in places.get("ckpt", ())),
        markers={path: answer.flag(f"marker.{place}") for place, path in places.get("marker", ())},
        results=tuple(_result(answer, *one) for one in places.get("result", ())),
        counts={path: answer.whole(f"count.{place}") for place, path in places.get("count", ())},
        exists={path: answer.flag(f"exists.{place}") for place, path in places.get("exists", ())},
        runs=answer.one("runs"),
        handbooks=_pages(answer.all("handbook")),
        whys={key.removesuffix(".why"): values[-1] for key, values in answer.values.items() if key.endswith(".why")},
    )  # fmt: skip


def _answer(text: str) -> tuple[_Answer, bool]:
    """What stands between the marks, and whether the second one came."""
    lines = text.split("\n")
    body = lines[lines.index(BEGIN) + 1 :] if BEGIN in lines else []
    complete = END in body
    return _Answer(body[: body.index(END)] if complete else body), complete


def _pages(rows: Sequence[str]) -> dict[str, str]:
    """Rows `name TAB line`, in order, as pages; at most 20, each bounded by the probe."""
    pages: dict[str, list[str]] = {}
    for row in rows:
        name, found, line = row.partition("\t")
        if found and name and (name in pages or len(pages) < 20):
            pages.setdefault(name, []).append(line)
    return {name: "\n".join(lines) + "\n" for name, lines in pages.items()}


def _gpus(rows: Sequence[str]) -> tuple[Gpu, ...]:
    seen: dict[int, Gpu] = {}
    for row in rows:
        match = re.match(_GPU, row)
        if match is None:
            continue
        index, util = int(match[1]), number(match[2])
        before = seen.get(index)
        if before is not None and before.util_pct is not None:
            util = before.util_pct if util is None else max(util, before.util_pct)
        seen[index] = Gpu(index, util, number(match[3]), number(match[4]))
    return tuple(seen[index] for index in sorted(seen))


def _disk(answer: _Answer, place: str, path: str) -> Disk:
    size = re.search(_DF, answer.one(f"mount.{place}.bytes") or "")
    inodes = re.search(_DF, answer.one(f"mount.{place}.inodes") or "")
    return Disk(
        path,
        answer.one(f"mount.{place}.why") or (None if size else "df said nothing"),
        int(size[4]) if size else None,
        int(size[3]) * 1024 if size else None,
        int(inodes[4]) if inodes else None,
    )


def _log(answer: _Answer, place: str, path: str) -> LogFacts:
    key = f"log.{place}."
    stat = [number(word) for word in (answer.one(f"{key}stat") or "").split()]
    size, mtime, inode = stat if len(stat) == 3 else (None, None, None)
    why = answer.one(f"{key}why") or (None if answer.one(f"{key}lines") is not None else "not read")
    return LogFacts(
        path,
        why,
        int(size) if size is not None else None,
        mtime or None,
        int(inode) if inode is not None else None,
        answer.one(f"{key}last") or "",
        answer.all(f"{key}step"),
        answer.one(f"{key}epoch"),
        answer.whole(f"{key}step_at") or 0,
        answer.whole(f"{key}crashes") or 0,
        answer.whole(f"{key}crash_at") or 0,
        answer.one(f"{key}crash") or "",
        answer.whole(f"{key}full_at") or 0,
        answer.whole(f"{key}done_at") or 0,
        answer.one(f"{key}done") or "",
    )


def _folder(answer: _Answer, place: str, path: str) -> Folder:
    key = f"ckpt.{place}."
    return Folder(
        path,
        answer.one(f"{key}why"),
        answer.number(f"{key}newest"),
        answer.all(f"{key}name"),
        answer.one(f"{key}latest"),
    )


def _result(answer: _Answer, place: str, path: str) -> Result:
    key = f"result.{place}"
    count = answer.whole(f"{key}.count")
    present = count > 0 if count is not None else answer.flag(key)
    return Result(path, present, count, answer.all(f"{key}.line"))
