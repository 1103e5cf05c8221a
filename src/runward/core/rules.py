"""Rules: which line means what. Values only; the files are read by `config.rulesets`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from runward.core import backtracking, errors, failures, literals, signals, vocabulary

FIELDS_OF_ALL = frozenset({"rank", "node", "file", "line", "exc", "message", "where", "text"})
"""Fields that a summary may use beside the pattern's own named groups."""
PHASES = ("startup", "first_step", "step", "checkpoint", "evaluation", "compile", "download")
EDGES = ("begin", "end")
TRACEBACK = "python_traceback_start"
"""The rule whose hits open a traceback."""
_KEYS = frozenset(
    {"name", "pattern", "role", "cause", "scope", "action", "weight", "summary", "advice", "match"}
    | {"no_match", "phase", "edge", "body", "live", "running", "terminal", "alone", "says"}
)
_FIELD = re.compile(r"\{([^{}]*)\}")
_FIELDS = re.compile(r"(?:\{[^{}]*\})+")


class Says(StrEnum):
    """What a line tells beside its role and cause.

    asked: a rank is told of another one's time-out: that is no complaint of its own.
    begins: a launcher or a trainer starts: behind the end of an earlier one it is a new attempt.
    damaged: a file ends early or does not decode; the frames above it tell whether that is data or a checkpoint.
    early_stop: the training ends itself by its own measure. ended_first: a launcher names the rank that ended first.
    ended_well: a launcher tells of one of its processes that it ended with 0.
    held: what runs now only keeps the machine, or serves a person: a live run without steps is idle.
    launcher: a launcher with ranks of its own speaks. restarted: a launcher begins again by itself.
    shared: what all ranks compute alike, or a part that they share: whoever says it first is not the one.
    store: a store lets a rank down, which is no peer of it. taken: one machine or pod is taken away.
    told_to_end: a launcher is asked to end by somebody else: collectives that fail after it are its teardown.
    tracker: a service beside the training does not answer and is asked again: a run without steps waits for it.
    waits: a process says again and again that it waits for another one: a live run without steps hangs.
    """

    ASKED = "asked"
    BEGINS = "begins"
    DAMAGED = "damaged"
    EARLY_STOP = "early_stop"
    ENDED_FIRST = "ended_first"
    ENDED_WELL = "ended_well"
    HELD = "held"
    LAUNCHER = "launcher"
    RESTARTED = "restarted"
    SHARED = "shared"
    STORE = "store"
    TAKEN = "taken"
    TOLD_TO_END = "told_to_end"
    TRACKER = "tracker"
    WAITS = "waits"


class Rule(NamedTuple):
    """One pattern over one line, and what a match says."""

    name: str
    family: str
    pattern: str
    """A Python regular expression over one line, searched as bytes (UTF-8)."""
    role: signals.Role
    need: literals.Required
    effort: backtracking.Effort
    cause: failures.Cause | None = None
    scope: failures.Scope | None = None
    action: failures.Action | None = None
    weight: int = 50
    """Strength among candidates of the same incident, 0 to 100."""
    summary: str = ""
    advice: tuple[failures.Advice, ...] = ()
    phase: str = ""
    """Which one a line begins or ends. The one that a failure belongs to: over when a live one's is entered again; for
    a run that lives, over `startup` when steps are made."""
    edge: str = ""
    body: bool = False
    """The match must begin where the message begins: after prefixes of rank, time and level."""
    live: bool = False
    """Counts although steps go on after it: an outcome, not a caught fault (loss is NaN, wrong transport)."""
    running: bool = False
    """Only of a run that lives: of one that is over it explains nothing."""
    terminal: bool = False
    """Its process or job is over: steps that come later are another rank's or another attempt's."""
    alone: failures.Action | None = None
    """What helps where of many ranks only one says it."""
    says: Says | None = None
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()

    @property
    def repeats(self) -> bool:
        """Whether of many such lines in a row some will do."""
        calm = (signals.Role.PROGRESS, signals.Role.BENIGN, signals.Role.ADVICE)
        return self.role in calm and self.name != TRACEBACK

    def to_json(self) -> dict[str, Any]:
        """Plain values for the compiled cache, without what is usual; example lines stay in the source file."""
        said = {
            "name": self.name,
            "family": self.family,
            "pattern": self.pattern,
            "role": str(self.role),
            "effort": list(self.effort),
            "need": [list(self.need.alternatives), self.need.nocase, self.need.lo, self.need.hi],
            "cause": self.cause,
            "scope": self.scope,
            "action": self.action,
            "weight": self.weight,
            "summary": self.summary,
            "advice": [[item.do, item.why] for item in self.advice],
            "phase": self.phase,
            "edge": self.edge,
            "body": self.body,
            "live": self.live,
            "running": self.running,
            "terminal": self.terminal,
            "alone": self.alone,
            "says": self.says,
        }
        return {key: value for key, value in said.items() if value or key == "weight"}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Rule":
        """The rule of a compiled cache. Raises KeyError, TypeError or ValueError on anything else."""
        alternatives, nocase, lo, hi = raw["need"]
        said = raw.get
        return cls(
            raw["name"],
            raw["family"],
            raw["pattern"],
            signals.Role(raw["role"]),
            literals.Required(tuple(alternatives), nocase, lo, hi),
            (raw["effort"][0], raw["effort"][1]),
            failures.Cause(raw["cause"]) if "cause" in raw else None,
            failures.Scope(raw["scope"]) if "scope" in raw else None,
            failures.Action(raw["action"]) if "action" in raw else None,
            raw["weight"],
            said("summary", ""),
            tuple(failures.Advice(do, why) for do, why in said("advice", ())),
            said("phase", ""),
            said("edge", ""),
            said("body", False),
            said("live", False),
            said("running", False),
            said("terminal", False),
            failures.Action(raw["alone"]) if "alone" in raw else None,
            Says(raw["says"]) if "says" in raw else None,
        )


class Index(NamedTuple):
    """What is needed of all rules at once, before any of them is: kept with their compiled form."""

    names: Sequence[str]
    repeating: frozenset[int]
    """Rules that repeat: see `Rule.repeats`."""
    words: vocabulary.Vocabulary

    @classmethod
    def of(cls, found: Sequence[Rule]) -> "Index":
        """The index of these rules, whose literals have no parts yet."""
        repeating = frozenset(place for place, rule in enumerate(found) if rule.repeats)
        return cls([rule.name for rule in found], repeating, vocabulary.of(rule.need for rule in found))


@dataclass(frozen=True)
class RuleSet:
    """All rules, in order; a scanner's pattern index is the index here."""

    rules: Sequence[Rule]
    fingerprint: str = ""
    """Changes with the content of the files."""
    problems: tuple[errors.Problem, ...] = ()
    """Rules of the user that were refused, each with its name and the reason."""
    kept: Index | None = None
    """The index, where it was kept."""

    @cached_property
    def index(self) -> Index:
        """What is needed of all rules at once."""
        return self.kept or Index.of(self.rules)

    @cached_property
    def by_name(self) -> Mapping[str, Rule]:
        """Rules by name; only those that are asked for are read."""
        return _ByName(self.rules, {name: place for place, name in enumerate(self.index.names)})


class _ByName(Mapping[str, Rule]):
    def __init__(self, found: Sequence[Rule], places: Mapping[str, int]) -> None:
        self._rules, self._places = found, places

    def __getitem__(self, name: str) -> Rule:
        return self._rules[self._places[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Faults(Exception):
    """What is wrong with one rule."""


def parse_family(raw: object, source: str) -> tuple[list[Rule], list[errors.Problem]]:
    """Rules of one file's content, and the rules that were refused. `source` is the file's name."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("rules"), Sequence):
        return [], [errors.Problem("no rule set: needs `family:` and a list `rules:`", source)]
    family = str(raw.get("family") or source.rpartition("/")[2].partition(".")[0])
    parts = raw.get("parts")
    known = {str(one): str(text) for one, text in parts.items()} if isinstance(parts, Mapping) else {}
    good: list[Rule] = []
    bad: list[errors.Problem] = []
    for place, entry in enumerate(raw["rules"], 1):
        name = str(entry.get("name", "")) if isinstance(entry, Mapping) else ""
        try:
            if not isinstance(entry, Mapping) or not name:
                raise _Faults("a rule is a mapping with at least `name`, `pattern` and `role`")
            good.append(_rule({**entry, "pattern": _filled(str(entry.get("pattern", "")), known)}, family))
        except _Faults as fault:
            bad.append(errors.Problem(str(fault), f"{source}: rule {name or f'number {place}'}"))
    return good, bad


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    """The pattern with the parts that its file names once for several rules."""

    def part(named: re.Match[str]) -> str:
        if named[1] in parts:
            return parts[named[1]]
        close = errors.nearest(named[1], parts)
        raise _Faults(f"the file has no part {named[1]!r}" + (f" (did you mean {close!r}?)" if close else ""))

    return re.sub(r"\{\{(\w+)\}\}", part, pattern)


def _rule(raw: Mapping[str, Any], family: str) -> Rule:
    unknown = [key for key in raw if key not in _KEYS]
    if unknown:
        close = errors.nearest(str(unknown[0]), _KEYS)
        raise _Faults(f"unknown key {unknown[0]!r}" + (f" (did you mean {close!r}?)" if close else ""))
    pattern = str(raw.get("pattern", ""))
    role = signals.Role(_word(raw, "role", signals.Role, "root"))
    cause = _word(raw, "cause", failures.Cause, "")
    scope, says = _word(raw, "scope", failures.Scope, ""), _word(raw, "says", Says, "")
    action, alone = (_word(raw, key, failures.Action, "") for key in ("action", "alone"))
    if role in (signals.Role.ROOT, signals.Role.ECHO) and not cause:
        raise _Faults(f"role {role} needs a `cause`")
    groups = _groups(pattern)
    return Rule(
        name=str(raw["name"]),
        family=family,
        pattern=pattern,
        role=role,
        need=_need(pattern),
        effort=backtracking.effort(pattern.encode()),
        cause=failures.Cause(cause) if cause else None,
        scope=failures.Scope(scope) if scope else None,
        action=failures.Action(action) if action else None,
        weight=_weight(raw.get("weight", 50)),
        summary=_template(str(raw.get("summary", "")), groups),
        advice=tuple(_advice(item, groups) for item in raw.get("advice", ())),
        phase=_word(raw, "phase", PHASES, ""),
        edge=_word(raw, "edge", EDGES, ""),
        body=bool(raw.get("body", False)),
        live=bool(raw.get("live", False)),
        running=bool(raw.get("running", False)),
        terminal=bool(raw.get("terminal", False)),
        alone=failures.Action(alone) if alone else None,
        says=Says(says) if says else None,
        match=tuple(str(line) for line in raw.get("match", ())),
        no_match=tuple(str(line) for line in raw.get("no_match", ())),
    )


def _word(raw: Mapping[str, Any], key: str, valid: Any, default: str) -> str:
    word = str(raw.get(key) or default)
    words = [str(item) for item in valid]
    if word and word not in words:
        close = errors.nearest(word, words)
        raise _Faults(f"{key}: {word!r} is not known" + (f", did you mean {close!r}?" if close else ""))
    return word


def _groups(pattern: str) -> frozenset[str]:
    try:
        return frozenset(re.compile(pattern.encode()).groupindex)
    except (re.error, RecursionError, OverflowError) as error:
        raise _Faults(f"the pattern does not compile: {error}") from None


def _need(pattern: str) -> literals.Required:
    if "\\n" in pattern or "\n" in pattern:
        raise _Faults("a pattern sees one line: take \\n out")
    slow = backtracking.fault(pattern.encode())
    if slow:
        raise _Faults(f"the pattern {slow}")
    need = literals.required(pattern)
    if need is None:
        raise _Faults("the pattern needs at least 3 fixed characters in a row")
    return need


def _weight(raw: object) -> int:
    if not isinstance(raw, int) or not 0 <= raw <= 100:
        raise _Faults(f"weight: {raw!r} is not a number from 0 to 100")
    return raw


def _template(text: str, groups: frozenset[str]) -> str:
    for name in _FIELD.findall(text):
        if name not in groups and name not in FIELDS_OF_ALL:
            raise _Faults(f"summary: {{{name}}} is no named group of the pattern")
    return text


def _advice(item: object, groups: frozenset[str]) -> failures.Advice:
    if isinstance(item, Mapping):
        do, why = str(item.get("do", "")), str(item.get("why", ""))
        return failures.Advice(_template(do, groups), _template(why, groups))
    return failures.Advice(_template(str(item), groups))


def fillable(template: str, fields: Mapping[str, str]) -> bool:
    """Whether at least one of the fields at each place of `template` is known."""
    runs = _FIELDS.findall(template)
    return all(any(fields.get(name) for name in _FIELD.findall(run)) for run in runs)


def fill(template: str, fields: Mapping[str, str]) -> str:
    """`template` with its fields; of fields side by side those that are known, `?` for none. Evaluates nothing.

    >>> fill("{rank} tried {tried}{old}", {"tried": "2 GiB"})
    '? tried 2 GiB'
    """
    return _FIELDS.sub(
        lambda found: "".join(fields.get(name) or "" for name in _FIELD.findall(found[0])) or "?", template
    )
