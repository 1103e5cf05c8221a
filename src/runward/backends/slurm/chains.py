"""Chains of jobs that a user made by `--dependency`: which job begins when another has ended, and whether it will."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runward.backends.slurm import records

_ONE = re.compile(r"(after[a-z]*|singleton)\b((?::\d+(?:_(?:\d+|\*))?(?:\+\d+)?)*)")
_SINGLETON = "singleton"
_ON_SUCCESS = frozenset({"afterok", "aftercorr"})


@dataclass(frozen=True, slots=True)
class Link:
    """A job that waits for another one."""

    record: records.Record
    kind: str
    """`afterany`, `afterok`, `afternotok`, `singleton`, ..."""

    def goes_on(self, *, succeeded: bool) -> bool:
        """Whether it begins after an end of that kind; `after` begins beside a job and continues nothing."""
        match self.kind:
            case "afterany" | "singleton":
                return True
            case "afternotok":
                return not succeeded
            case _:
                return self.kind in _ON_SUCCESS and succeeded


def index(found: Iterable[records.Record]) -> Mapping[str, tuple[Link, ...]]:
    """Who waits for whom: links by what they wait for (`12`, `12_3`, `12_*`, or `singleton` with owner and name)."""
    links: dict[str, list[Link]] = {}
    for record in found:
        if record.word != "PENDING" or not record.dependency or record.reason == "DependencyNeverSatisfied":
            continue
        for kind, ids in _ONE.findall(record.dependency):
            named = [one.partition("+")[0] for one in ids.split(":") if one]
            for key in named if kind != _SINGLETON else [_of_name(record)]:
                links.setdefault(key, []).append(Link(record, kind))
    return {key: tuple(many) for key, many in links.items()}


def of(links: Mapping[str, tuple[Link, ...]], record: records.Record) -> tuple[Link, ...]:
    """Links that wait for a job."""
    array, _, task = record.job_id.partition("_")
    keys = [record.job_id, *([array, f"{array}_*"] if task else []), _of_name(record)]
    found = [link for key in keys for link in links.get(key, ())]
    return tuple(link for link in found if link.record.job_id != record.job_id)


def _of_name(record: records.Record) -> str:
    return f"{_SINGLETON}:{record.uid}:{record.name}"
