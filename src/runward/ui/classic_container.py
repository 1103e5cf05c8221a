"""A container's post-mortem in the classic sections of the shell scripts, with the verdict that is true."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LINE = "=" * 42
_ARROWS = {
    137: "Container was KILLED (SIGKILL)",
    139: "Segmentation fault",
    143: "Terminated (SIGTERM)",
}
_HEADLINES = {
    "host_oom": "Out of Memory (OOM)",
    "disk_full": "Disk Full",
    "gpu_oom": "GPU Out of Memory",
    "cuda_error": "CUDA error",
    "segfault": "Segmentation fault",
    "cancelled": "Ended on request",
    "shm": "Shared memory (/dev/shm)",
}


NONE = "❌ No containers found"
"""What is said in place of a report."""


def render(report: Mapping[str, Any]) -> str:
    """Text of the JSON answer of one container."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    seen, limits, verdict = report["container"], report["container"]["limits"], report["verdict"]
    yield "Most recent container:"
    yield from (
        f"  {name}: {value}"
        for name, value in (
            ("ID", seen["id"][:12]),
            ("Name", seen["name"]),
            ("Image", seen["image"]),
            ("Status", seen["status"]),
        )
    )
    yield ""
    yield f"Exit code: {'none yet' if seen['exit_code'] is None else seen['exit_code']}"
    yield f"  → {_arrow(seen, verdict)}"
    if verdict["cause"] == "host_oom":
        yield "🔴 CAUSE: OUT OF MEMORY (OOM)"
        yield f"   {verdict['summary']}"
    memory = f"{limits['memory']} bytes (limited)" if limits["memory"] else "unlimited"
    cpus = f"{limits['cpus'] * 1e9:.0f} NanoCpus" if limits["cpus"] else "unlimited"
    yield from _section("Container Resource Limits", [f"Memory: {memory}", f"CPU: {cpus}"])
    yield from _section("Last 50 Lines of Container Logs", report["log_tail"])
    kernel = [
        item["text"]
        for item in report["kernel"]
        if "kill" in item["text"].lower() or "oom" in item["text"].lower()
    ]
    yield from _section(
        "System OOM Killer Events (around its end)", _seen(report, "kernel log", kernel[-100:])
    )
    yield from _section(
        "Docker Daemon Logs (last 20 lines)", _seen(report, "daemon log", report["daemon"][-20:])
    )
    yield from _section("Current System Resources", [f"{k}: {v}" for k, v in report["resources"].items()])
    yield from _section("Diagnostic Summary", _summary(report))


def _arrow(seen: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
    code = seen["exit_code"]
    if code is None:
        return f"Container is {seen['status']}"
    if code == 0:
        return "Container exited normally"
    if code == 137:
        return _ARROWS[137] + _killed_by(verdict)
    return _ARROWS.get(code, "Abnormal exit")


def _killed_by(verdict: Mapping[str, Any]) -> str:
    proven = verdict["certainty"] == "proven"
    match verdict["cause"]:
        case "host_oom":
            return " by the OOM killer" if proven else " - likely by the OOM killer"
        case "cancelled":
            return " - on request" if proven else " - likely on request"
        case "killed":
            return " - OOM or manual kill, not proven"
        case _:
            return ""


def _summary(report: Mapping[str, Any]) -> Iterator[str]:
    verdict, code = report["verdict"], report["container"]["exit_code"]
    likely = "" if verdict["certainty"] == "proven" else "LIKELY "
    if verdict["cause"] in _HEADLINES:
        yield f"🔴 {likely}CAUSE: {_HEADLINES[verdict['cause']]}"
    elif verdict["cause"] == "none":
        yield "✅ No failure"
    else:
        yield f"⚠️  Exit code {code} - {verdict['cause']}"
    yield f"   {verdict['summary']}"
    yield from (f"   - {item['text']}" for item in report["evidence"])
    yield from (f"   - against it: {item['text']}" for item in report["counter_evidence"])
    if report["advice"]:
        yield "Solutions:"
        yield from (f"  {n}. {item['do']}" for n, item in enumerate(report["advice"], 1))
    yield from (f"not observable: {why}" for why in report["not_observable"])
    yield ""
    yield "For a record of the next one: runward record"


def _seen(report: Mapping[str, Any], what: str, lines: Sequence[str]) -> Sequence[str]:
    blind = [why for why in report["not_observable"] if why.startswith(what)]
    return blind or lines or ["none in the window"]


def _section(title: str, lines: Any) -> Iterator[str]:
    yield from ("", _LINE, title, _LINE)
    yield from ("".join(char if char.isprintable() else " " for char in str(line)[:500]) for line in lines)
