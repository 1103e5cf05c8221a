"""The ladder: ask the command's root, then the rest, then insist until nothing is left.

Climbed by the keeper over its descendants, and by a watcher over what can be found when the keeper was
killed. It is advanced by calls, keeps no thread, and tells its steps.
"""

from __future__ import annotations

import signal

from runward.keeper import proc, stuck

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS_BEFORE_STOPPING = 3
FAST_S, SLOW_S = 0.02, 0.5
STACKS_S = 2.0


class Plan:
    """What `end.json` says. `now`: no grace, SIGKILL at once; `stacks`: let fault handlers print first."""

    def __init__(self, data: dict[str, object], signum: int = 15, grace_s: float = 60.0) -> None:
        number, grace = data.get("signum", signum), data.get("grace_s", grace_s)
        self.signum = number if isinstance(number, int) and 0 < number < signal.NSIG else signum
        self.grace_s = float(grace) if isinstance(grace, (int, float)) and grace >= 0 else grace_s
        self.why = str(data.get("why", ""))
        self.now = data.get("now") is True
        self.stacks = data.get("stacks") is True


class Tree:
    """What a ladder needs to know of an attempt's processes; the default one is a table of functions."""

    def __init__(
        self, root: proc.Identity, members: Callable[[], dict[int, proc.Stat]], reap: Callable[[], None]
    ) -> None:
        self.root = root
        self.members = members
        """Every process of the attempt that is not known to be dead, the root among them."""
        self.reap = reap


class Ladder:
    """One attempt's end, step by step: `idle`, `stacks`, `ask`, `linger`, `term`, `kill`."""

    def __init__(self, tree: Tree, tell: Callable[[Ladder], None]) -> None:
        self.step = "idle"
        self.plan: Plan | None = None
        self.killed: set[int] = set()
        self.unkillable: list[dict[str, object]] = []
        self.term_wait_s, self.unkillable_after_s = 5.0, 60.0
        self._tree, self._tell = tree, tell
        self._until = 0.0
        self._round = 0
        self._seen: set[int] = set()
        self._kill_began = 0.0
        self._looked = 0.0

    def ask(self, plan: Plan, now: float) -> None:
        """Begin, or go on more quickly: a later plan never makes an end slower."""
        first = self.plan is None
        self.plan = plan
        if plan.now:
            self._enter("kill", now)
        elif first and self.step == "idle":
            self._enter("stacks" if plan.stacks else "ask", now)
        elif self.step == "linger":
            self._enter("term", now)
        elif self.step == "ask":
            self._until = min(self._until, now + plan.grace_s)

    def root_ended(self, now: float, *, well: bool, grace_s: float) -> None:
        """The root is gone: what it left gets the grace when all was well, else is ended at once."""
        if self.step == "idle" and well:
            self._enter("linger", now)
            self._until = now + grace_s
        elif self.step in {"idle", "ask", "stacks"}:
            self._enter("term", now)

    def advance(self, now: float) -> float | None:
        """Do what is due; returns seconds until the next call is wanted, None when idle."""
        if self.step == "idle":
            return None
        if self.step == "kill":
            return self._insist(now)
        if now >= self._until:
            self._enter({"stacks": "ask", "ask": "term", "linger": "term", "term": "kill"}[self.step], now)
            return 0.0
        return min(self._until - now, SLOW_S)

    def _enter(self, step: str, now: float) -> None:
        if step == self.step:
            return
        self.step = step
        plan = self.plan or Plan({})
        if step == "stacks":
            self._until = now + STACKS_S
            self._signal(signal.SIGABRT, only_catching=True)
        elif step == "ask":
            self._until = now + plan.grace_s
            self._ask_root(plan.signum)
        elif step == "term":
            self._until = now + self.term_wait_s
            self._signal(signal.SIGTERM)
        elif step == "kill":
            self._kill_began = self._looked = now
        self._tell(self)

    def _ask_root(self, signum: int) -> None:
        fd = self._tree.root.open()
        if fd is not None:
            with proc.closing(fd):
                proc.send_to(fd, signum, signal.SIGCONT)

    def _signal(self, signum: int, *, only_catching: bool = False) -> None:
        for one in self._tree.members().values():
            if not only_catching or proc.catches(one.pid, signum):
                proc.send(one, signum, signal.SIGCONT)

    def _insist(self, now: float) -> float:
        """SIGKILL to all, again for those that appeared meanwhile; from round four all are stopped first."""
        for _ in range(8):
            members = self._tree.members()
            fresh = set(members) - self._seen
            if fresh and self._round >= ROUNDS_BEFORE_STOPPING:
                members = self._stop_all(members)
            self._seen |= set(members)
            self._round += 1 if fresh else 0
            for one in members.values():
                if proc.kill(one):
                    self.killed.add(one.pid)
            self._tree.reap()
            if not fresh:
                break
        return self._look_at_stuck(now)

    def _stop_all(self, members: dict[int, proc.Stat]) -> dict[int, proc.Stat]:
        """SIGSTOP until a look finds nothing new: then nobody is left who could fork."""
        stopped: set[int] = set()
        for _ in range(1000):
            fresh = [one for pid, one in members.items() if pid not in stopped]
            if not fresh:
                break
            for one in fresh:
                proc.send(one, signal.SIGSTOP)
                stopped.add(one.pid)
            members = self._tree.members()
        return members

    def _look_at_stuck(self, now: float) -> float:
        if now - self._kill_began < min(1.0, self.unkillable_after_s):
            return FAST_S
        if now - self._kill_began >= self.unkillable_after_s and now - self._looked >= SLOW_S * 4:
            self._looked = now
            self.unkillable = [stuck.describe(one) for one in self._tree.members().values()]
            self._tell(self)
        return SLOW_S
