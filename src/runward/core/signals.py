"""A known pattern recognised in a line: what it says, about whom, and whether it can be a root."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from runward.core import citations, failures, prefixes, voices

if TYPE_CHECKING:  # rules name the roles of this module
    from runward.core import rules

TEXT_LIMIT = 2000
"""Characters of a line that are kept as evidence."""
CALM = ("TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING")
ALARMS = ("ERROR", "CRITICAL", "FATAL", "EXCEPTION", "PANIC", "ALERT", "EMERGENCY", "SEVERE")
_NEXT_WORDS = re.compile(r"(?:: | - |\| |\] |\) | with | by )")
_LEAD, _PARTS = 300, 10

_TELLING = ("rank", "own")
"""Groups of rules that tell a rank."""
_NOTHING: Mapping[str, str] = {}


class Role(StrEnum):
    """What a recognised line is good for.

    root: may be the first cause. echo: follows from something else when an earlier cause exists.
    advice: a hint printed by software. benign: explains away words that look bad.
    progress, phase, end_mark, resume: say how the training stands.
    """

    ROOT = "root"
    ECHO = "echo"
    ADVICE = "advice"
    BENIGN = "benign"
    PROGRESS = "progress"
    PHASE = "phase"
    END_MARK = "end_mark"
    RESUME = "resume"


class Signal(NamedTuple):
    """One recognised line."""

    rule: str
    role: Role
    text: str
    cause: failures.Cause | None = None
    rank: int | None = None
    node: str | None = None
    at: float | None = None
    """Seconds since the epoch if the line carries a time stamp, else None."""
    file: str | None = None
    line: int | None = None
    offset: int | None = None
    fields: Mapping[str, str] = _NOTHING
    """Named groups of the rule, e.g. `step`, `loss`, `tried`, `free`."""
    local_rank: int | None = None
    """Device number on `node`, where only that is printed."""
    level: str = ""
    aside: bool = False
    """Said in passing: of a record of level WARNING or below, or behind other words of a record."""
    voice: voices.Voice = voices.NOBODY
    """The process that speaks, as its prefix names it."""
    file_rank: int | None = None
    """The rank of its log by the log's name."""

    @property
    def by_name(self) -> bool:
        """Whether only the name of the log tells the rank."""
        said = (
            self.voice.rank is not None or self.voice.assumed or not self.fields.keys().isdisjoint(_TELLING)
        )
        return self.rank is not None and self.rank == self.file_rank and not said


class Source(NamedTuple):
    """Where lines come from."""

    file: str | None = None
    rank: int | None = None
    node: str | None = None
    year: int | None = None
    """Completes time stamps that have no year."""
    local: int | None = None
    """Its number among those of one node, where only that is known, and which node's it is."""
    place: str = ""


_PART = "\0"


def part(file: str | None, section: str) -> str:
    """The name of a part of a joined log, which is kept apart as if it were a file of its own."""
    return f"{whole(file) or ''}{_PART}{section}"


def whole(file: str | None) -> str | None:
    """The file in which a part stands."""
    return file.partition(_PART)[0] if file else file


def section(file: str | None) -> str:
    """The name of a part of a joined log; empty for a file of its own."""
    return file.partition(_PART)[2] if file else ""


class Place(NamedTuple):
    """One line of a source that a pattern was found in."""

    text: str
    line: int | None = None
    offset: int | None = None


def extract(rule: "rules.Rule", place: Place, groups: Mapping[str, str], source: Source) -> Signal | None:
    """What a rule's match says, or None where the rule wants to begin the message and does not, or the line cites."""
    front = prefixes.on(prefixes.split(place.text, source.year), source.node)
    if citations.cites(front.body):
        return None
    begins = not rule.body or _begins(rule.pattern, front.body)
    if not begins and not _reported(rule.pattern, front):
        return None
    other, speaker = _told(groups, front), voice_of(front, source)
    return Signal(
        rule=rule.name,
        role=rule.role,
        text=place.text[:TEXT_LIMIT],
        cause=rule.cause,
        rank=None if other is not None else _rank(groups, front, source),
        node=groups.get("node") or front.node,
        at=front.at,
        file=source.file,
        line=place.line,
        offset=place.offset,
        fields={name: text for name, text in groups.items() if text},
        local_rank=front.local_rank,
        level=front.level,
        aside=not begins or front.level in CALM,
        voice=other or (speaker._replace(assumed=False) if groups.get("rank") else speaker),
        file_rank=source.rank,
    )


def voice_of(front: prefixes.Prefix, source: Source) -> voices.Voice:
    """Who speaks: whom the front of the line names, else the process whose log it is."""
    said = front.voice
    if source.local is None or said.name or said.number is not None:
        return said
    return voices.Voice("", said.rank, source.local, source.place, local=True)


def _told(groups: Mapping[str, str], front: prefixes.Prefix) -> voices.Voice | None:
    """The process of its own node that a launcher's line tells of, by its local number, instead of the speaker."""
    local = groups.get("local", "")
    if groups.get("rank") or not (local.isascii() and local.isdigit()):
        return None
    name = f":{groups['pid']}" if groups.get("pid") else ""
    return voices.Voice(name, None, int(local[:4]), groups.get("node") or front.node or "", local=True)


def _begins(pattern: str, body: str) -> bool:
    """With the flags of a scanner, so that `re` has kept the pattern that found the line."""
    return re.compile(pattern.encode(), re.MULTILINE).match(body.encode("utf-8", "replace")) is not None


def _reported(pattern: str, front: prefixes.Prefix) -> bool:
    """Whether a record of an error names it behind other words: `ERROR trainer: step 12 failed: KeyError: 'x'`."""
    if front.level not in ALARMS:
        return False
    places = [found.end() for found in _NEXT_WORDS.finditer(front.body[:_LEAD])]
    return any(_begins(pattern, front.body[place:]) for place in places[:_PARTS])


def _rank(groups: Mapping[str, str], front: prefixes.Prefix, source: Source) -> int | None:
    """Whom the words name; else who speaks, by the front of the line before its words: those may count in a group."""
    said = groups.get("rank") or ("" if front.rank is not None else groups.get("own", ""))
    if said.isascii() and said.isdigit() and len(said) < 8:
        return int(said)
    return front.rank if front.rank is not None else source.rank
