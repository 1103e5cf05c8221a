"""What a keeper writes down: the tree as last seen, the steps of an end, the exit, and that all is gone.

Nothing is given up because the disk is full: the exit and the end are tried again until they are there.
"""

from __future__ import annotations

import contextlib
import os
import time

from runward.keeper import endings, layout, proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from runward.keeper import cgroups, logs

    class Attempt(Protocol):
        """What is written down of an attempt; its keeper has it."""

        root: proc.Identity
        counters: cgroups.Counters
        ladder: endings.Ladder
        log: logs.Bounded
        exit: dict[str, object] | None

        def members(self) -> Mapping[int, proc.Stat]:
            """All that descends from the command."""
            ...


_USAGE = (
    "ru_utime",
    "ru_stime",
    "ru_maxrss",
    "ru_minflt",
    "ru_majflt",
    "ru_inblock",
    "ru_oublock",
    "ru_nvcsw",
    "ru_nivcsw",
)
_SHARE = 300
"""A look at the tree may cost one part in so many of a core."""


def exit_record(info: os.waitid_result, keeper: Attempt) -> dict[str, object]:
    """How the command ended, as `exit.json` says it."""
    exited = info.si_code == os.CLD_EXITED
    return {
        "schema_version": layout.SCHEMA,
        "pid": keeper.root.pid,
        "code": info.si_status if exited else None,
        "signum": None if exited else info.si_status,
        "core": info.si_code == os.CLD_DUMPED,
        "at": time.time(),
        "boot_id": proc.boot_id(),
        "oom_kill": keeper.counters.to_json(),
        "asked": keeper.ladder.plan is not None,
    }


class Records:
    """The files of one attempt that its keeper writes."""

    def __init__(self, folder: str, keeper: Attempt) -> None:
        self._folder, self._keeper = folder, keeper
        self.exit_written = False
        self._tree: dict[int, dict[str, int | None]] = {}
        self._counts: dict[str, list[int]] = {}
        self._tree_due = 0.0
        self._end_stamp: tuple[int, int] | None = None
        self._steps: list[dict[str, object]] = []

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def new_end(self) -> dict[str, object] | None:
        """`end.json`, when it is there and not the one read before."""
        try:
            info = os.stat(self._path(layout.END))
        except OSError:
            return None
        stamp = (info.st_ino, info.st_mtime_ns)
        if stamp == self._end_stamp:
            return None
        data = layout.read_json(self._path(layout.END))
        if data is not None:
            self._end_stamp = stamp
        return data

    def write_exit(self) -> bool:
        """Put `exit.json` in place; False when it must be tried again."""
        if self.exit_written:
            return True
        self.exit_written = self._insist(lambda: layout.write_exit(self._folder, self._keeper.exit))
        return self.exit_written

    def add_usage(self, record: dict[str, object], usage: object) -> None:
        """What the command and all that it waited for itself have used; known only after it was reaped."""
        record["rusage"] = {name[3:]: getattr(usage, name) for name in _USAGE}
        if self.exit_written:
            with contextlib.suppress(OSError):
                layout.write_json(self._path(layout.EXIT), record)

    def write_gone(self) -> bool:
        """Put `gone.json` in place; False when it must be tried again."""
        ladder = self._keeper.ladder
        self._keeper.counters.look_at_end()
        layout.sync(self._path(layout.EXIT))
        data = {
            "schema_version": layout.SCHEMA,
            "at": time.time(),
            "boot_id": proc.boot_id(),
            "killed": len(ladder.killed),
            "unkillable": ladder.unkillable,
            "oom_kill": self._keeper.counters.to_json(),
            "log": self._keeper.log.describe(),
        }
        return self._insist(lambda: layout.write_json(self._path(layout.GONE), data, durable=True))

    def _insist(self, write: Callable[[], None]) -> bool:
        """Whether the write succeeded, or its folder was taken away and nobody can read it any more."""
        try:
            write()
        except OSError:
            self._keeper.log.give_up_reserve()
            with contextlib.suppress(OSError):
                write()
                return True
            return not os.path.isdir(self._folder)
        return True

    def tell_step(self, ladder: endings.Ladder) -> None:
        """Append a step of the ladder to `ending.json`, for those who wait for the end."""
        plan = ladder.plan
        step: dict[str, object] = {"step": ladder.step, "at": time.time()}
        if not self._steps or self._steps[-1]["step"] != ladder.step:
            self._steps.append(step)
        data = {
            "schema_version": layout.SCHEMA,
            "why": plan.why if plan else "",
            "signum": plan.signum if plan else None,
            "grace_s": plan.grace_s if plan else None,
            "steps": self._steps,
            "left": len(self._keeper.members()),
            "unkillable": ladder.unkillable,
        }
        with contextlib.suppress(OSError):
            layout.write_json(self._path(layout.ENDING), data)

    def write_tree(self, now: float) -> None:
        """Note who descends from the command, for the day this keeper is killed."""
        if now < self._tree_due:
            return
        began = time.thread_time()
        found = proc.descendants_by_children(os.getpid())
        found = proc.descendants([os.getpid()]) if found is None else found
        known = {pid: self._tree[pid] for pid in found if self._known(found[pid])}
        for pid in found:
            if pid not in known:
                known[pid] = proc.Identity.of(pid).to_json()
            self._keeper.counters.note(pid)
        self._keeper.counters.look()
        counts = self._keeper.counters.to_json()
        if known != self._tree or counts != self._counts:
            self._tree, self._counts = known, counts
            self._save_tree()
        self._tree_due = now + max(0.9, (time.thread_time() - began) * _SHARE)

    def _known(self, one: proc.Stat) -> bool:
        entry = self._tree.get(one.pid)
        return entry is not None and entry["start"] == one.start

    def _save_tree(self) -> None:
        data = {
            "schema_version": layout.SCHEMA,
            "at": time.time(),
            "boot_id": proc.boot_id(),
            "processes": list(self._tree.values()),
            "oom_kill": self._keeper.counters.to_json(),
        }
        with contextlib.suppress(OSError):
            layout.write_json(self._path(layout.TREE), data)
