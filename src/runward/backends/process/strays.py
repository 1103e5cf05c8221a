"""What is left of an attempt whose keeper was killed: found by every trace, ended by a ladder of ours.

Traces: the command's identity, the keeper's last record of the tree, the token in the environment, the
attempt's log as stdout or stderr, and all that descends from these. A process without any of them cannot be
found: "gone" then means as far as can be seen.
"""

import contextlib
import os
import time

from runward.backends.process import attempts
from runward.core import job
from runward.keeper import cgroups, endings, layout, proc, syscalls

_TWICE_S = 0.02
_SHARE = 300


class Strays:
    """The processes of one attempt without a keeper."""

    def __init__(self, folder: str, root: proc.Identity | None) -> None:
        self._folder, self.root = folder, root
        self._spec = layout.read_spec(folder) or {}
        self._token = str(self._spec.get("token") or "\0")
        self.status: int | None = None
        """Raw wait status of the command, once it was seen."""
        self.grace_s = self._seconds("grace_s", 60.0)
        self._logs = {key for name in (layout.OUTPUT, layout.OUTPUT_ERR) if (key := self._file_key(name))}
        self._noted: set[int] = set()
        self._note_due = 0.0
        self.ladder = endings.Ladder(
            endings.Tree(root or proc.Identity(0, None, None), self.members, self.reap), self._tell
        )
        self.ladder.term_wait_s = self._seconds("term_wait_s", 5.0)
        self.ladder.unkillable_after_s = self._seconds("unkillable_after_s", 60.0)

    def _seconds(self, key: str, default: float) -> float:
        value = self._spec.get(key, default)
        return float(value) if isinstance(value, int | float) else default

    def _file_key(self, name: str) -> tuple[int, int] | None:
        log = self._spec.get("log")
        folder = log.get("dir") if isinstance(log, dict) else None
        with contextlib.suppress(OSError):
            info = os.stat(os.path.join(folder or self._folder, name))
            return info.st_dev, info.st_ino
        return None

    def see_root(self, pidfd: int) -> None:
        """Take the dead command's status, before anything else could wait for it."""
        if self.status is None:
            self.status = status_seen_by_us(pidfd, self.root)

    def root_alive(self) -> bool:
        """Whether the command's own process runs."""
        return self.root is not None and self.root.alive()

    def members(self) -> dict[int, proc.Stat]:
        """Every living process that a trace leads to."""
        table = proc.everything()
        seeds = {pid for pid, one in table.items() if one.ppid != 2 and self._is_ours(one)}
        seeds |= {one.pid for one in self._recorded() if one.alive()}
        seeds.discard(os.getpid())
        found = {pid: table[pid] for pid in seeds if pid in table} | proc.descendants(seeds, table)
        return {pid: one for pid, one in found.items() if proc.Identity(pid, one.start, None).alive()}

    def _is_ours(self, one: proc.Stat) -> bool:
        if self._token in proc.tokens(one.pid):
            return True
        for number in (1, 2):
            with contextlib.suppress(OSError):
                info = os.stat(f"/proc/{one.pid}/fd/{number}")
                if (info.st_dev, info.st_ino) in self._logs:
                    return True
        return False

    def _recorded(self) -> list[proc.Identity]:
        tree = layout.read_json(os.path.join(self._folder, layout.TREE)) or {}
        listed = tree.get("processes") if tree.get("boot_id") == proc.boot_id() else None
        found = [proc.Identity.from_json(one) for one in listed] if isinstance(listed, list) else []
        root = self.root or proc.Identity(0, None, None)
        return [root, *(one for one in found if one is not None and one.pid != root.pid)]

    def reap(self) -> None:
        """Collect those that fell to us as subreaper; never anybody else's children."""
        mine = os.getpid()
        for one in self._recorded()[1:]:  # not the command: see `see_root`
            known = proc.stat(one.pid)
            if known is not None and known.ppid == mine and known.start == one.start and known.state == "Z":
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(one.pid, os.WNOHANG)

    def none_left(self) -> bool:
        """Two looks, 20 ms apart, find nothing."""
        if self.members():
            return False
        time.sleep(_TWICE_S)
        return not self.members()

    def note(self, now: float) -> None:
        """Keep `tree.json` up to date in the dead keeper's place, at a small share of a core."""
        if now < self._note_due:
            return
        began = time.thread_time()
        members = self.members()
        if set(members) != self._noted:
            old = layout.read_json(os.path.join(self._folder, layout.TREE)) or {}
            listed = [proc.Identity.of(pid).to_json() for pid in members]
            data = {**old, "boot_id": proc.boot_id(), "at": time.time(), "processes": listed}
            with contextlib.suppress(OSError):
                layout.write_json(os.path.join(self._folder, layout.TREE), data)
                self._noted = set(members)
        self._note_due = now + max(0.9, (time.thread_time() - began) * _SHARE)

    def _tell(self, ladder: endings.Ladder) -> None:
        data = {
            "schema_version": layout.SCHEMA,
            "by": "watcher",
            "why": ladder.plan.why if ladder.plan else "",
            "steps": [{"step": ladder.step, "at": time.time()}],
            "unkillable": ladder.unkillable,
        }
        with contextlib.suppress(OSError):
            layout.write_json(os.path.join(self._folder, layout.ENDING), data)


def status_seen_by_us(pidfd: int, root: proc.Identity | None) -> int | None:
    """Raw wait status of a dead command without a keeper; None when nobody can say.

    As its adoptive parent; else from the kernel (Linux >= 6.15, once it was reaped); else from the zombie that
    a PID 1 which does not reap keeps, where root may read it.
    """
    with contextlib.suppress(ChildProcessError):
        info = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
        if info is not None:
            return _raw(info.si_code, info.si_status)
    status = syscalls.exit_status_of(pidfd)
    if status is None and root is not None and os.geteuid() == 0:
        zombie = proc.stat(root.pid)
        if zombie is not None and zombie.state == "Z" and zombie.start == root.start:
            return zombie.exit_code
    return status


def exit_of(status: int | None) -> job.ExitStatus:
    """A raw wait status as a value; unseen when there is none."""
    if status is None:
        return job.ExitStatus.unseen()
    if os.WIFSIGNALED(status):
        return job.ExitStatus(None, os.WTERMSIG(status))
    return job.ExitStatus(os.WEXITSTATUS(status))


def _raw(code: int, status: int) -> int:
    return status << 8 if code == os.CLD_EXITED else status


def write_end(folder: str, status: int | None, ladder: endings.Ladder) -> None:
    """Say in the dead keeper's place how the command ended, if that was seen, and that all is gone."""
    record: dict[str, object] = {
        "schema_version": layout.SCHEMA,
        "by": "watcher",
        "at": time.time(),
        "boot_id": proc.boot_id(),
    }
    attempt = attempts.look(folder)
    if status is not None and attempt.exit is None:
        seen = exit_of(status)
        ended = {**record, "code": seen.code, "signum": seen.signum, "asked": attempt.asked}
        layout.write_json(os.path.join(folder, layout.EXIT), ended, durable=True)
    counters = cgroups.Counters()
    known = layout.read_json(os.path.join(folder, layout.TREE)) or attempt.start or {}
    counters.restore(known.get("oom_kill"))
    counters.look_at_end()
    record["oom_kill"] = counters.to_json()
    gone = {**record, "killed": len(ladder.killed), "unkillable": ladder.unkillable, "as_far_as_seen": True}
    layout.write_json(os.path.join(folder, layout.GONE), gone, durable=True)
