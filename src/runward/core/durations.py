"""Durations, sizes and instants as people write them: `30s`, `1h30m`, `2GiB`, ISO-8601."""

import re
from datetime import UTC, datetime

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
"""Seconds of each unit of time."""
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_SIZES = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", re.IGNORECASE)


def parse_duration(text: str) -> float:
    """Seconds of `text`.

    >>> parse_duration("1h30m"), parse_duration("500ms"), parse_duration("10")
    (5400.0, 0.5, 10.0)
    """
    stripped = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", stripped):
        return float(stripped)
    if not stripped or not re.fullmatch(rf"(?:{_PART.pattern}\s*)+", stripped):
        raise ValueError(f"{text!r} is no duration: write 30s, 10m, 1h30m or 2d")
    return sum(float(n) * UNITS[unit] for n, unit in _PART.findall(stripped))


def format_duration(seconds: float) -> str:
    """Two units at most, for people.

    >>> format_duration(4.2), format_duration(3725), format_duration(90000)
    ('4.2 s', '1 h 2 min', '1 d 1 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if minutes < 60:
        rest = int(seconds - minutes * 60)
        return f"{minutes} min" + (f" {rest} s" if rest and minutes < 10 else "")
    if hours < 24:
        rest = minutes - hours * 60
        return f"{hours} h" + (f" {rest} min" if rest else "")
    rest = hours - days * 24
    return f"{days} d" + (f" {rest} h" if rest else "")


def parse_size(text: str) -> int:
    """Bytes of `text`.

    >>> parse_size("2GiB"), parse_size("64mb"), parse_size("100")
    (2147483648, 64000000, 100)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size: write 64MiB, 2GiB or 500kB")
    return int(float(match[1]) * _SIZES[(match[2] or "").lower()])


def format_size(count: float) -> str:
    """Binary units, for people.

    >>> format_size(1536), format_size(5)
    ('1.5 KiB', '5 B')
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def iso(at: float | None) -> str | None:
    """Seconds since the epoch as ISO-8601 UTC with milliseconds and Z; None stays None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_iso(text: str) -> float:
    """Seconds since the epoch of what `iso` wrote.

    >>> from_iso("2031-01-01T00:00:00.250Z")
    1924992000.25
    """
    return datetime.fromisoformat(text).timestamp()
