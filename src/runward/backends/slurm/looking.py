"""The newest look at all jobs: one squeue, then accounting and the controller for what it does not name.

A look is made by a thread of its own, so that a controller that does not answer holds up nobody.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runward import ports
from runward.backends import asking
from runward.backends.slurm import chains, commands, records, words

_HURRIED_EVERY_S = 1.5
_CROWD = 2000
"""A user with so many other jobs is asked about by id: chains are then not seen, and the controller is spared."""
_SHOWN_A_LOOK = 20
"""At most so many jobs are asked of the controller one by one in a look."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a look gave."""

    at: float
    """Monotonic seconds."""
    asked: tuple[str, ...] = ()
    found: Mapping[str, records.Record] = field(default_factory=dict)
    denied: frozenset[str] = frozenset()
    """Jobs that every source was asked about, and that none knows."""
    why_not: Mapping[str, str] = field(default_factory=dict)
    """Jobs about which a source did not answer, and why."""
    failed: str | None = None
    """Why squeue gave nothing at all."""
    links: Mapping[str, tuple[chains.Link, ...]] = field(default_factory=dict)
    """Jobs that wait for others, as far as all of the user's jobs were seen."""


class Looker:
    """Looks when it is due; hands out the newest look."""

    def __init__(
        self, slurm: commands.Commands, mono: Callable[[], float], every_s: float, patience_s: float
    ) -> None:
        self._slurm, self._mono = slurm, mono
        self._every_s, self._patience_s = every_s, patience_s
        self._uid = str(os.getuid())
        self._known: set[str] = set()
        self._fresh: set[str] = set()
        self._newest: Look | None = None
        self._good: Look | None = None
        self.under_way: asking.Asking[Look] | None = None
        """The look that is being made."""
        self._hurry = False
        self._hurried_until = 0.0
        self._listed: set[str] = set()
        """Jobs that all of the user's own hold or held, or that nobody has."""
        self._others: set[str] = set()
        """Jobs that all of the user's own do not hold: those of another user."""
        self._crowded = False
        self.queries = 0

    def watch(self, jobs: Sequence[str]) -> None:
        """Jobs to be asked about; a new one is looked at soon."""
        for one in jobs:
            if one not in self._known:
                self._known.add(one)
                self._fresh.add(one)

    def forget(self, job_id: str) -> None:
        """A job that is over: it is not asked about again."""
        self._known.discard(job_id)
        self._fresh.discard(job_id)
        self._listed.discard(job_id)
        self._others.discard(job_id)

    def hurry(self, for_s: float = 0.0) -> None:
        """Something was done: what was seen before is out of date, and somebody waits for what comes of it."""
        self._hurry = True
        self._hurried_until = max(self._hurried_until, self._mono() + for_s)

    def newest(self) -> tuple[Look | None, Look | None]:
        """The last look, and the last one that squeue answered. Waits a moment for one that is under way."""
        if self.under_way is None and self._due():
            jobs = tuple(sorted(self._known))
            self._hurry = False
            self.under_way = asking.Asking("squeue", lambda: self._ask(jobs))
        patience = self._patience_s if self._newest is None or self._fresh else 0.0
        if self.under_way is not None and self.under_way.ready(patience):
            self._newest = self._taken(self.under_way)
            self.under_way = None
        return self._newest, self._good

    def _due(self) -> bool:
        if self._newest is None or self._hurry:
            return bool(self._known)
        now = self._mono()
        age = now - self._newest.at
        every = self._every_s if now >= self._hurried_until else min(self._every_s, _HURRIED_EVERY_S)
        return bool(self._known) and (age >= every or (bool(self._fresh) and age >= 1.0))

    def _taken(self, done: asking.Asking[Look]) -> Look:
        try:
            look = self._good = done.answer()
        except ports.ContactLost as error:
            return Look(self._mono(), failed=str(error))
        self._fresh.difference_update(look.asked)
        return look

    def _ask(self, jobs: tuple[str, ...]) -> Look:
        self.queries += 1
        found = self._queued(jobs)
        links = chains.index(found.values())
        found = with_wholes(found, jobs)
        wanted = set(jobs)
        absent = [one for one in jobs if one not in found]
        why_not: dict[str, str] = {}
        extra: dict[str, records.Record] = {}
        if absent:
            extra, why_not = self._beyond(absent)
        kept = {
            key: record for key, record in {**found, **with_wholes(extra, absent)}.items() if key in wanted
        }
        self._listed.update(key for key, record in kept.items() if record.uid == self._uid)
        denied = frozenset(one for one in absent if one not in kept and one not in why_not)
        told = self._slurm.with_accounts(kept)
        return Look(self._mono(), jobs, told, denied, why_not, links=links)

    def _queued(self, jobs: Sequence[str]) -> dict[str, records.Record]:
        """All of the user's jobs, so that chains are seen, and by id what they do not hold. Raises ContactLost."""
        if self._crowded or self._others.intersection(jobs):
            return self._slurm.queue(jobs)
        found = self._slurm.queue(jobs, whole=True)
        self._crowded = len(found) > max(_CROWD, 2 * len(jobs))
        held = with_wholes(found, jobs)
        absent = [one for one in jobs if one not in held and one not in self._listed]
        if not absent:
            return found
        more = self._slurm.queue(absent)
        theirs = set(absent).intersection(with_wholes(more, absent))
        self._others |= theirs
        self._listed |= set(absent) - theirs
        return {**found, **more}

    def _beyond(self, absent: Sequence[str]) -> tuple[dict[str, records.Record], dict[str, str]]:
        """Accounting first, then the controller."""
        found: dict[str, records.Record] = {}
        why_not: dict[str, str] = {}
        try:
            found.update(self._slurm.accounts(absent))
        except ports.ContactLost as error:
            why_not = dict.fromkeys(absent, str(error))
        rest = [one for one in absent if one not in found and f"{one}+0" not in found]
        for number, one in enumerate(rest):
            if number >= _SHOWN_A_LOOK:
                why_not.setdefault(one, "squeue no longer has it; the controller is asked at a later look")
                continue
            try:
                found.update(self._slurm.show(one))
            except ports.ContactLost as error:
                why_not[one] = str(error)
        return found, {key: why for key, why in why_not.items() if key not in found}


def with_wholes(found: Mapping[str, records.Record], jobs: Sequence[str]) -> dict[str, records.Record]:
    """With the heterogeneous ones among `jobs`, which Slurm lists by their parts."""
    parts: dict[str, list[records.Record]] = {}
    for key, record in found.items():
        if "+" in key:
            parts.setdefault(key.partition("+")[0], []).append(record)
    wholes = {
        one: records.together(parts[one], one, lambda word: words.state_of(word).final)
        for one in jobs
        if one in parts and one not in found
    }
    return {**found, **wholes}
