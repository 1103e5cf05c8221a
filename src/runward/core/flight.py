"""What PyTorch's flight recorders say: who did not join which collective.

Input is the inert form of each rank's dump (mappings, lists, strings, numbers), as the probe reads it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runward.core import failures


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One process group as one rank saw it."""

    rank: int
    group: str
    enqueued: int
    started: int
    completed: int
    waiting_in: str = ""
    """Name of the oldest collective that was not completed."""


@dataclass(frozen=True, slots=True)
class FlightSummary:
    """Over the dumps of all ranks that left one."""

    ranks: tuple[int, ...]
    """Ranks whose dumps were read."""
    behind: tuple[int, ...]
    """Ranks that others wait for by their own counters: they never came to the collective."""
    silent: tuple[int, ...]
    """Members of a group with a waiting rank that left no dump that can be read."""
    statuses: tuple[GroupStatus, ...]
    text: str
    unread: Mapping[str, str]
    """Why a dump was not read, by file."""
    files: Mapping[int, str] = field(default_factory=dict)
    """The dump of each rank."""

    @property
    def missing(self) -> tuple[int, ...]:
        """Those behind; where there are none, the silent ones."""
        return self.behind or self.silent

    def waiting(self) -> tuple[int, ...]:
        """One rank of each group that waits in a collective: its dump says in which."""
        newest = _newest(self.statuses)
        found = {s.group: s.rank for s in reversed(self.statuses) if s.enqueued > newest[s.group]}
        return tuple(sorted(set(found.values())))

    def evidence(self) -> tuple[failures.Evidence, ...]:
        """What the dumps of those behind and of one that waits for them say."""
        newest = _newest(self.statuses)
        late = [s for s in self.statuses if s.rank in self.behind and s.enqueued <= newest[s.group]]
        groups = {s.group for s in late}
        waits = [s for s in self.statuses if s.rank in self.waiting() and (s.group in groups or not late)]
        return tuple(
            failures.Evidence(
                f"group {s.group}: last enqueued collective {s.enqueued}, last completed"
                f" {s.completed}" + (f", waits in {s.waiting_in}" if s.waiting_in else ""),
                file=self.files.get(s.rank),
                rank=s.rank,
                rule="flight_recorder",
                source="flight_recorder",
            )
            for s in (*late[:3], *waits[:2])
        )

    def to_json(self) -> dict[str, Any]:
        """For `extra.flight_recorder` of a diagnosis."""
        return {
            "ranks": list(self.ranks),
            "missing": list(self.missing),
            "text": self.text,
            "groups": [
                {
                    "rank": s.rank,
                    "group": s.group,
                    "last_enqueued": s.enqueued,
                    "last_started": s.started,
                    "last_completed": s.completed,
                    "waiting_in": s.waiting_in or None,
                }
                for s in self.statuses
            ],
            "unread": dict(self.unread),
        }


def _newest(table: Sequence[GroupStatus]) -> dict[str, int]:
    """The newest collective of each group that any rank completed."""
    found: dict[str, int] = {}
    for status in table:
        found[status.group] = max(status.completed, found.get(status.group, -1))
    return found


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def statuses(rank: int, dump: Mapping[str, Any]) -> list[GroupStatus]:
    """The groups of one rank's dump: its own counters where present, else counted from its entries."""
    entries = [entry for entry in dump.get("entries") or () if isinstance(entry, Mapping)]
    found = []
    for group, status in sorted(_mapping(dump.get("pg_status")).items()):
        numbers = _mapping(status)
        completed = _whole(numbers.get("last_completed_collective"))
        found.append(
            GroupStatus(
                rank,
                str(group),
                _whole(numbers.get("last_enqueued_collective")),
                _whole(numbers.get("last_started_collective")),
                completed,
                _waiting_in(entries, str(group), completed),
            )
        )
    return found or _counted(rank, entries)


def _group_of(entry: Mapping[str, Any]) -> str:
    group = entry.get("process_group")
    if isinstance(group, Sequence) and not isinstance(group, str) and group:
        return str(group[0])
    return str(entry.get("pg_id", group if group is not None else "0"))


def _waiting_in(entries: Sequence[Mapping[str, Any]], group: str, completed: int) -> str:
    """The oldest collective beyond the last completed one: gloo leaves finished entries "scheduled"."""
    for entry in entries:
        number = _whole(entry.get("collective_seq_id"))
        if _group_of(entry) != group or entry.get("is_p2p") or number <= completed:
            continue
        if entry.get("state") != "completed":
            return f"{entry.get('profiling_name', '?')} #{number}"
    return ""


def _counted(rank: int, entries: Sequence[Mapping[str, Any]]) -> list[GroupStatus]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        groups.setdefault(_group_of(entry), []).append(entry)
    return [
        GroupStatus(
            rank,
            group,
            _last(own, ("scheduled", "started", "completed")),
            _last(own, ("started", "completed")),
            _last(own, ("completed",)),
            _waiting_in(own, group, _last(own, ("completed",))),
        )
        for group, own in sorted(groups.items())
    ]


def _last(entries: Sequence[Mapping[str, Any]], states: tuple[str, ...]) -> int:
    numbers = [_whole(entry.get("collective_seq_id")) for entry in entries if entry.get("state") in states]
    return max(numbers, default=-1)


def members(dump: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Ranks of each group, where the dump says."""
    found = {}
    for group, config in _mapping(dump.get("pg_config")).items():
        ranks = _mapping(config).get("ranks")
        if isinstance(ranks, str):
            words = ranks.strip("[] ").split(",")
            found[str(group)] = tuple(int(word) for word in words if word.strip().isdecimal())
    return found


def summarise(
    dumps: Mapping[int, Mapping[str, Any]], unread: Mapping[str, str], files: Mapping[int, str] | None = None
) -> FlightSummary:
    """Compare the ranks: in a group, the missing one did not enqueue what the others wait in, or left no dump."""
    table = [status for rank, dump in sorted(dumps.items()) for status in statuses(rank, dump)]
    by_group: dict[str, list[GroupStatus]] = {}
    for status in table:
        by_group.setdefault(status.group, []).append(status)
    behind: set[int] = set()
    silent: set[int] = set()
    lines: list[str] = []
    known = {group: ranks for dump in dumps.values() for group, ranks in members(dump).items()}
    if len(known) == len(by_group) == 1:  # the default group is named "" in one table and "0" in the other
        known = dict(zip(by_group, known.values(), strict=True))
    for group, own in sorted(by_group.items()):
        late, without, line = _late(group, own, known.get(group, ()))
        behind |= late
        silent |= without
        lines += [line] if line else []
    text = "; ".join(lines) or ("no collective is unfinished" if table else "no dump could be read")
    return FlightSummary(
        tuple(sorted(dumps)),
        tuple(sorted(behind)),
        tuple(sorted(silent)),
        tuple(table),
        text,
        dict(unread),
        dict(files or {}),
    )


def _late(group: str, own: Sequence[GroupStatus], ranks: tuple[int, ...]) -> tuple[set[int], set[int], str]:
    """A rank that enqueued no more than what was completed holds up those that did; to be ahead is no fault."""
    newest = _newest(own)[group]
    waiting = [status for status in own if status.enqueued > newest]
    if not waiting:
        return set(), set(), ""
    late = {status.rank for status in own if status.enqueued <= newest}
    silent = {rank for rank in ranks if rank not in {status.rank for status in own}}
    where = waiting[0].waiting_in or f"collective #{newest + 1}"
    waits = f"rank{'s' if len(waiting) > 1 else ''} {_list(s.rank for s in waiting)}"
    line = f"group {group}: {waits} in {where}"
    if late:
        line += f"; rank{'s' if len(late) > 1 else ''} {_list(late)} did not join"
    if silent:
        line += f"; no dump of rank{'s' if len(silent) > 1 else ''} {_list(silent)}"
    return late, silent, line


def _list(ranks: Any) -> str:
    return ", ".join(str(rank) for rank in sorted(ranks))
