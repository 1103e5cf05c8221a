"""Whether what is shown of a run can be believed: its watcher may be gone, stand still, or see nothing."""

from collections.abc import Mapping
from typing import Any

from runward.core import durations

LIVE = frozenset({"pending", "running", "restarting", "waiting"})
"""States in which something may still happen by itself."""
SILENT_S = 180.0
"""A watcher looks once a minute at the slowest place; one that has not for so long stands still."""


def watcher(row: Mapping[str, Any], now: float) -> str:
    """Who watches, in a word or two: `none!` where somebody should."""
    if not row["watcher"]:
        return "none!" if row["state"] in LIVE else "-"
    silent = silence_s(row, now)
    said = f" silent {durations.format_duration(silent)}!" if silent is not None else ""
    return f"{row['watcher']['pid']}{said}"


def silence_s(row: Mapping[str, Any], now: float) -> float | None:
    """Seconds since the watcher's last look at a live attempt where that is too long; None where not, or unknown."""
    looked_at = row["watcher"].get("looked_at") if row["watcher"] else None
    if looked_at is None or row["state"] not in LIVE:
        return None
    silent = now - durations.from_iso(looked_at)
    return silent if silent > SILENT_S else None


def blind(row: Mapping[str, Any], now: float) -> str | None:
    """Why the state of a live run may be an old one; None where it is being seen.

    `row`: a line of `ps`, or the whole of `status`.
    """
    contact = row["contact"]
    if row["state"] not in LIVE:
        return None
    if not row["watcher"]:
        return "nobody watches this run"
    if not (contact["ok"] if isinstance(contact, Mapping) else contact):
        return "contact lost (says nothing about the run)"
    silent = silence_s(row, now)
    if silent is not None:
        return f"its watcher has not looked for {durations.format_duration(silent)}"
    return None


def tone(row: Mapping[str, Any], now: float) -> str:
    """`good` for what is seen to go on or to have ended well, `warn`, `bad` or `calm`: never good while blind."""
    state = row["state"]
    if state in {"failed", "held"}:
        return "bad"
    if state in {"stopped", "cancelled"}:
        return "calm"
    if state == "succeeded":
        return "good"
    halted = row["paused"] or row.get("why") == "stalled" or state != "running"
    return "warn" if halted or blind(row, now) is not None else "good"
