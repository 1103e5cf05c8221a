"""Looking at rules: what a line would hit, whether examples hold, and which patterns are unwise."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from runward.config import rulesets
from runward.core import errors, prefixes, rules, signals

_SLOW_S = 0.05
"""A pattern that takes longer on one window of 4 KiB is unwise."""
_WINDOWS = (b"a" * 4096, b" " * 4096, b"1:" * 2048, b"a b" * 1365, b"[" * 4096, b"/x" * 2048)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a rule."""

    rule: str
    what: str


def loaded(files: Sequence[str] = ()) -> rules.RuleSet:
    """All rules with their examples."""
    return rulesets.full(files)


def rows(ruleset: rules.RuleSet, family: str | None) -> Iterator[Mapping[str, object]]:
    """One row a rule."""
    for rule in ruleset.rules:
        if family is None or rule.family == family:
            yield {
                "name": rule.name,
                "family": rule.family,
                "role": str(rule.role),
                "cause": rule.cause and str(rule.cause),
                "action": rule.action and str(rule.action),
                "weight": rule.weight,
                "pattern": rule.pattern,
            }


def tested(files: Sequence[str]) -> tuple[int, list[Fault]]:
    """How many rules of `files` (none: all) were tried, and which examples do not hold."""
    if files:
        own = rulesets.parse([rulesets.Source(path, _bytes(path), user=True) for path in files])
    else:
        own = rulesets.full()
    faults = [Fault(problem.where, problem.what) for problem in own.problems]
    for rule in own.rules:
        faults += [Fault(rule.name, text) for text in _examples(rule)]
    return len(own.rules), faults


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise errors.NotFound(errors.Problem(f"cannot be read: {error.strerror}", path)) from None


def _examples(rule: rules.Rule) -> Iterator[str]:
    for line in rule.match:
        if _hit(rule, line) is None:
            yield f"does not match its example {line!r}"
    for line in rule.no_match:
        if _hit(rule, line) is not None:
            yield f"matches {line!r}, which it must not"


def _hit(rule: rules.Rule, line: str) -> signals.Signal | None:
    found = re.search(rule.pattern.encode(), line.encode("utf-8", "replace"))
    if found is None:
        return None
    groups = {k: v.decode("utf-8", "replace") for k, v in found.groupdict().items() if v is not None}
    return signals.extract(rule, signals.Place(line), groups, signals.Source())


def explained(ruleset: rules.RuleSet, line: str) -> Mapping[str, object]:
    """What a line says: its front, and every rule that it hits, strongest first."""
    front = prefixes.split(line)
    hits = [(rule, found) for rule in ruleset.rules if (found := _hit(rule, line)) is not None]
    hits.sort(key=lambda pair: -pair[0].weight)
    return {
        "rank": front.rank,
        "node": front.node,
        "level": front.level,
        "message": front.body,
        "rules": [
            {
                "name": rule.name,
                "role": str(rule.role),
                "cause": rule.cause and str(rule.cause),
                "weight": rule.weight,
                "fields": dict(found.fields),
            }
            for rule, found in hits
        ],
    }


def linted(files: Sequence[str] = ()) -> list[Fault]:
    """Roots that fire on a healthy log, and patterns that are slow on hostile lines."""
    ruleset = rulesets.full(files)
    sample = (resources.files("runward") / "rulesets" / "healthy.log").read_text("utf-8").splitlines()
    faults = [Fault(problem.where, problem.what) for problem in ruleset.problems]
    calm = [rule for rule in ruleset.rules if rule.role is signals.Role.BENIGN]
    bare = [line for line in sample if not any(_hit(one, line) for one in calm)]
    for rule in ruleset.rules:
        if rule.role is signals.Role.ROOT:
            fired = [line for line in bare if _hit(rule, line) is not None]
            faults += [Fault(rule.name, f"fires on a healthy line: {line!r}") for line in fired]
        if _slow(rule):
            faults.append(Fault(rule.name, "is slow on long lines: bound its repeats"))
    return faults


def _slow(rule: rules.Rule) -> bool:
    pattern = re.compile(rule.pattern.encode())
    words = [text.encode() for text in rule.need.alternatives[:2]]
    for window in _WINDOWS:
        for word in words:
            text = window[:2000] + word + window[:2000]
            begin = time.thread_time()
            pattern.search(text)
            if time.thread_time() - begin > _SLOW_S:
                return True
    return False
