"""Values as people and tools write them beside a log: text, numbers with units, spans of time, several of one kind."""

import json
import re
from collections.abc import Mapping

from runward.core import durations, regexes

LIMIT = 4000
"""Characters of one value that are read."""
_NUMBER = re.compile(r"\s*[~>≈]?\s*(\d{1,3}(?:,\d{3}){1,4}(?![,\d])|\d{1,12})(\.\d{1,6})?")
_CLOCK = re.compile(r"\s*(?:(\d{1,4})-)?(\d{1,4}):(\d\d)(?::(\d\d)(?:\.\d+)?)?\s*")
_SPAN = re.compile(r"(?i)(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)[a-z]{0,8}\b")
_ONE = ("value", "max", "avg", "mean")
"""Keys under which an object holds the number that it is about."""


def flat(value: object) -> str:
    """As a log would print it: of an object its JSON, whose words are not Python's."""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)[:LIMIT]
    return "" if value is None else str(value)[:LIMIT]


def number(value: object) -> float | None:
    """The number with which a value begins; of several, which are of several devices, the highest.

    >>> number("97 %"), number("1,800"), number([100, 0]), number("n/a"), number(True)
    (97.0, 1800.0, 100.0, None, None)
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, list | Mapping):
        return _highest(value)
    found = _NUMBER.match(str(value)[:40])
    return float(found[1].replace(",", "") + (found[2] or "")) if found else None


def _highest(value: "list[object] | Mapping[str, object]") -> float | None:
    if isinstance(value, Mapping):
        inner = [value[key] for key in _ONE if key in value][:1] or list(value.values())[:64]
    else:
        inner = value[:64]
    numbers = [n for n in map(number, (one for one in inner if not isinstance(one, list))) if n is not None]
    return max(numbers, default=None)


def seconds(value: object) -> float | None:
    """A span of time; a bare number is of seconds.

    >>> seconds(90), seconds("40 min"), seconds("1h 30m"), seconds("00:40:00"), seconds("1-02:00:00"), seconds("5 s")
    (90.0, 2400.0, 5400.0, 2400.0, 93600.0, 5.0)
    """
    if isinstance(value, str):
        clock = _CLOCK.fullmatch(value[:40])
        if clock:
            return _of_clock(clock)
        spans = _SPAN.findall(value[:40])
        if spans:
            return sum(float(count) * durations.UNITS[unit.lower()] for count, unit in spans)
    return number(value)


def _of_clock(found: "re.Match[str]") -> float:
    days, first, second, third = (int(part or 0) for part in found.groups())
    if found[4] is None:  # minutes and seconds
        return days * 86400.0 + first * 60 + second
    return days * 86400.0 + first * 3600 + second * 60 + third


def whole(value: object) -> int | None:
    """A number without its fraction; None for what counts nothing."""
    found = number(value)
    return int(found) if found is not None and found < 1e15 else None


def percent(value: object) -> float | None:
    """A share in percent; of several devices, in whatever form they are listed, the highest.

    >>> percent("2,100,100,100"), percent([0, 0]), percent("100% / 0%"), percent("3 on GPU 7"), percent("idle")
    (100.0, 0.0, 100.0, 3.0, None)
    """
    if isinstance(value, str) and regexes.ready(_LISTED).fullmatch(value[:400]):
        return max(map(float, re.findall(r"\d+(?:\.\d+)?", value[:400])))
    return number(value)


_LISTED = r"[\s\[(]*\d{1,3}(?:\.\d{1,4})? ?%?(?:[\s,;/]{1,3}\d{1,3}(?:\.\d{1,4})? ?%?)+[\s\])]*"


def every(value: object, *keys: str) -> list[object]:
    """What an object holds under any of these keys, the outermost first."""
    found: list[object] = []
    level = [value]
    for _ in range(_DEEP):
        objects = [one for one in level if isinstance(one, Mapping)]
        found += [one[key] for one in objects for key in keys if one.get(key) is not None]
        level = [below for one in level[:64] for below in _below(one)][:256]
    return found


def inner(value: object, *keys: str) -> object:
    """The first of `every`; None without any, and for what is no object."""
    return next(iter(every(value, *keys)), None)


_DEEP = 5


def _below(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return list(value.values())[:64]
    return value[:64] if isinstance(value, list) else []
