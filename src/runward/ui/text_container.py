"""A container's post-mortem for people: the verdict first, then what proves it, then the facts."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runward.core import durations

_TAIL_LINES, _WIDTH = 50, 300
_ID = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_RULE = "=" * 78


def render_all(reports: Sequence[Mapping[str, Any]]) -> str:
    """Several containers: first one line of each, then each report under its rule."""
    if len(reports) < 2:
        return "".join(map(render, reports))
    rows = [
        (
            str(report["container"]["name"]),
            str(report["container"]["finished_at"] or "never started"),
            f"{report['verdict']['cause']} ({report['verdict']['certainty']})",
        )
        for report in reports
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    head = "\n".join(
        [f"{len(reports)} containers, the newest first", *(f"  {line.rstrip()}" for line in lines)]
    )
    return head + "\n" + "".join(f"\n{_RULE}\n{render(report)}" for report in reports)


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
        ("exit code", "none yet" if code is None else f"{code}: {seen['exit_meaning']}"),
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
    kernel = [f"{item['at']}  {_clean(item['text'])}{_elsewhere(item, report)}" for item in report["kernel"]]
    yield from _listed(f"Kernel, {span}", kernel[-20:])
    yield from _listed(f"Docker daemon, {span}", [_clean(line) for line in report["daemon"]][-20:])


def _elsewhere(item: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """Said of a line in the window that is about another container: nearness alone would accuse this one."""
    owner = item["container"]
    other = owner is not None and owner != report["container"]["id"]
    return f"  (in another container: {owner[:12]})" if other else ""


def _tail(report: Mapping[str, Any]) -> Iterator[str]:
    tail = [_clean(line) for line in report["log_tail"]]
    if tail:
        last = tail[-_TAIL_LINES:]
        yield from _listed(
            f"Last {len(last)} lines of its log" if len(last) > 1 else "Its log: one line", last
        )
        return
    if any(why.startswith("container log") for why in report["not_observable"]):
        return
    driver = report["container"]["log_driver"] or "unknown"
    yield ""
    yield f"Its log is empty (log driver {driver}). Logs that stay: runward setup docker-logging"


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
    """Without what would steer a terminal, and not longer than a person reads; ids as `docker ps` shows them."""
    return "".join(char if char.isprintable() else " " for char in _ID.sub(r"\1", str(text)[:4096])[:_WIDTH])
