"""A container's post-mortem for people: the verdict first, then what proves it, then the facts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runward.core import durations

_TAIL_LINES, _WIDTH = 50, 300


def render(report: Mapping[str, Any]) -> str:
    """Text of the JSON answer of one container."""
    seen, verdict = report["container"], report["verdict"]
    lines = [
        f"{verdict['cause']}  ({verdict['certainty']}; what would help: {verdict['action']})",
        f"  {_clean(verdict['summary'])}",
        *_listed("Evidence", (_evidence(item) for item in report["evidence"])),
        *_listed("Against it", (_evidence(item) for item in report["counter_evidence"])),
        *_listed("Advice", (_advice(item) for item in report["advice"])),
        *_listed("Not observable", report["not_observable"]),
        "",
        f"Container {seen['name']}  {seen['id'][:12]}",
        *_table(_facts(report)),
        *_listed("Events of its life", (f"{item['at']}  {item['event']}" for item in report["events"])),
        *_window(report),
        *_tail(report),
        *_then(report),
        *_listed("Now", (f"{name}: {value}" for name, value in report["resources"].items())),
    ]
    return "\n".join(lines) + "\n"


def _facts(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    seen, limits = report["container"], report["container"]["limits"]
    code = seen["exit_code"]
    bounds = [f"{name} {_amount(name, value)}" for name, value in limits.items() if value]
    return [
        ("image", seen["image"]),
        ("command", _clean(" ".join(seen["command"]))),
        ("state", seen["status"] + (f", health {seen['health']}" if seen["health"] else "")),
        ("exit code", "none yet" if code is None else str(code)),
        ("started", seen["started_at"] or "never"),
        ("ended", seen["finished_at"] or "not yet"),
        ("restarts", f"{seen['restarts']} (policy {seen['restart_policy']})"),
        ("limits", ", ".join(bounds) + ("" if limits["memory"] else "; memory is not limited")),
        ("log driver", seen["log_driver"] or "unknown"),
    ]


def _amount(name: str, value: object) -> str:
    if name in {"memory", "memory_swap", "shm"} and isinstance(value, int) and value > 0:
        return f"{value / 2**20:.0f} MiB"
    return "unlimited" if value == -1 else str(value)


def _window(report: Mapping[str, Any]) -> Iterator[str]:
    span = f"{report['window']['from']} to {report['window']['until']}"
    kernel = [f"{item['at']}  {_clean(item['text'])}" for item in report["kernel"]]
    yield from _listed(f"Kernel, {span}", kernel[-20:])
    yield from _listed(f"Docker daemon, {span}", [_clean(line) for line in report["daemon"]][-20:])


def _tail(report: Mapping[str, Any]) -> Iterator[str]:
    tail = [_clean(line) for line in report["log_tail"]]
    if tail:
        yield from _listed(f"Last {len(tail[-_TAIL_LINES:])} lines of its log", tail[-_TAIL_LINES:])
        return
    if any(why.startswith("container log") for why in report["not_observable"]):
        return
    driver = report["container"]["log_driver"] or "unknown"
    yield ""
    yield f"Its log is empty (log driver {driver})."
    if driver not in {"json-file", "local", "journald"}:
        yield "  Logs that stay: runward setup docker-logging"


def _then(report: Mapping[str, Any]) -> list[str]:
    if report["box"] is None:
        return []
    told = report["box"]
    before = durations.format_duration(told["seconds_before"])
    return _listed(f"The machine {before} before its end", [f"{told['summary']}  ({told['record']})"])


def _evidence(item: Mapping[str, Any]) -> str:
    place = f"{item['file']}:{item['line']}: " if item["file"] and item["line"] else ""
    at = f" [{item['at']}]" if item["at"] else ""
    return f"{item['source']}: {place}{_clean(item['text'])}{at}"


def _advice(item: Mapping[str, str]) -> str:
    return item["do"] + (f"  ({item['why']})" if item["why"] else "")


def _listed(title: str, items: Iterable[str]) -> list[str]:
    rows = [f"  {item}" for item in items]
    return ["", title, *rows] if rows else []


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"  {name:<{width}}  {value}" for name, value in rows]


def _clean(text: str) -> str:
    """Without what would steer a terminal, and not longer than a person reads."""
    return "".join(char if char.isprintable() else " " for char in str(text)[:_WIDTH])
