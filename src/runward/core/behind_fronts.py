"""Exceptions behind a front that nobody knows: a rule that looks at the beginning of a message misses them there."""

import re
from collections.abc import Mapping

from runward.core import casebook, prefixes, rules, signals, tracebacks

Found = tuple[rules.Rule, Mapping[str, str]]


class Classes:
    """The rules for the classes of exceptions; read when the first such exception is met."""

    def __init__(self, book: casebook.Casebook) -> None:
        self._book = book
        self._rules: list[rules.Rule] | None = None

    def of(self, one: tracebacks.Traceback) -> Found | None:
        """The strongest rule that knows the exception of a traceback with such a front, and what it reads there."""
        if one.name in prefixes.split(one.text).body[: len(one.name)] or one.name not in one.text:
            return None
        if self._rules is None:
            self._rules = [rule for rule in self._book.rules.values() if _of_classes(rule)]
        said = f"{one.name}: {one.message}" if one.message else one.name
        text = said.encode("utf-8", "replace")
        met = ((rule, re.match(rule.pattern.encode(), text)) for rule in self._rules)
        known = [(rule, found) for rule, found in met if found is not None]
        if not known:
            return None
        rule, found = max(known, key=lambda pair: pair[0].weight)
        groups = found.groupdict().items()
        return rule, {key: value.decode("utf-8", "replace") for key, value in groups if value}


def _of_classes(rule: rules.Rule) -> bool:
    blames = rule.role in (signals.Role.ROOT, signals.Role.ECHO)
    return rule.body and blames and rule.name != "python_exception"
