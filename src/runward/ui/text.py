"""Plain text of the view models, for terminals and pipes. No colour unless the caller's style adds it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runward.core import durations, recovery
from runward.ui import short, sight


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as their widest cell, two blanks apart; no trailing blanks."""
    cells = [list(head), *[["-" if v is None else str(v) for v in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return "\n".join(
        "  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def ago(then: str | None, now: float) -> str:
    """How long before `now` an ISO instant was."""
    if then is None:
        return "-"
    return durations.format_duration(max(0.0, now - durations.from_iso(then)))


def ps(rows: Sequence[Mapping[str, Any]], now: float) -> str:
    """The table of `runward ps`."""
    if not rows:
        return "no runs; start one with: runward run -- COMMAND"
    head = ("RUN", "STATE", "ATTEMPT", "STEP", "PROGRESS", "CAUSE", "TARGET", "WATCHER")
    return table(head, [_ps_row(r, now) for r in rows])


def _ps_row(r: Mapping[str, Any], now: float) -> tuple[object, ...]:
    state = r["state"] + (" (paused)" if r["paused"] else "") + ("" if r["contact"] else " (contact lost)")
    live = r["state"] in sight.LIVE
    return (
        r["run"],
        state,
        r["attempt"],
        steps(r["step"], r["total_steps"]),
        ago(r["progress_at"], now),
        r["cause"] if not live or r["cause"] else "-",
        r["target"] or "-",
        sight.watcher(r, now),
    )


def steps(step: object, total: object) -> str:
    """The step, and of how many where that is known."""
    if step is None:
        return "-"
    return f"{step}/{total}" if total is not None else str(step)


def status(body: Mapping[str, Any], now: float) -> str:
    """The page of `runward status RUN`."""
    lines = [*head(body, now), ""]
    for attempt in body["attempts"]:
        lines.extend(_attempt(attempt, body))
    lines.extend(checkpoints(body["checkpoints"]))
    lines.extend(ledger(body["ledger"]))
    return "\n".join(lines).rstrip()


def head(body: Mapping[str, Any], now: float) -> list[str]:
    """How a run stands: its state, and a line for each thing to be known beside it."""
    live = body["state"] in sight.LIVE
    first = f"{body['run']}: {body['state']}" + (" (paused)" if body["paused"] else "")
    if body["why"]:
        first += f" - {body['why']}"
    lines = [first]
    if body["step"] is not None:
        lines.append(
            f"  step {steps(body['step'], body['total_steps'])}, {ago(body['progress_at'], now)} ago"
            + _rate(body)
        )
    lines.extend(f"  note: {note}" for note in body["progress"].get("notes", ()))
    contact = body["contact"]
    if not contact["ok"]:
        lines.append(
            f"  contact lost since {contact['since']}: {contact['why']} (says nothing about the run)"
        )
    if live and body["watcher"] is None:
        lines.append(f"  nobody watches this run: runward watch {body['run']}")
    elif body["watcher"]:
        lines.append(
            f"  watched by pid {body['watcher']['pid']} on {body['watcher']['host']}, policy {body['policy']}"
            + _silent(body, now)
        )
    if body["ettr"] is not None:
        lines.append(f"  useful time {body['ettr']:.0%}" + _lost(body))
    if body["exit_code"] is not None and not live and not _unseen(body):
        lines.append(f"  exit code {body['exit_code']}")
    return lines


def _silent(body: Mapping[str, Any], now: float) -> str:
    silent = sight.silence_s(body, now)
    return f"; it has not looked for {durations.format_duration(silent)}" if silent is not None else ""


def _unseen(body: Mapping[str, Any]) -> bool:
    """Whether the code is only what we leave with, and nobody saw how the last attempt exited."""
    last = body["attempts"][-1]["exit"] if body["attempts"] else None
    return body["exit_code"] == 0 and last is not None and not last["seen"]


def _rate(body: Mapping[str, Any]) -> str:
    progress = body["progress"]
    parts = []
    if progress.get("loss") is not None:
        parts.append(f"loss {progress['loss']:.4g}")
    if progress.get("eta_s") is not None and body["state"] in {"running", "restarting"}:
        parts.append(f"done in about {durations.format_duration(progress['eta_s'])}")
    return (", " + ", ".join(parts)) if parts else ""


def _lost(body: Mapping[str, Any]) -> str:
    lost = {
        cause: part["total_s"]
        for cause, part in body["lost"].items()
        if part["total_s"] >= 1
        and cause != recovery.SINCE_LAST_STEP  # the line above says how old the step is
    }
    if not lost:
        return ""
    return "; lost " + ", ".join(
        f"{durations.format_duration(s)} to {cause.replace('_', ' ')}" for cause, s in lost.items()
    )


def _attempt(a: Mapping[str, Any], body: Mapping[str, Any]) -> list[str]:
    lines = [f"attempt {a['n']}" + attempt_words(a)]
    verdict = a["verdict"]
    if verdict:
        lines.append(f"  {short.cause(verdict)}")
        lines.extend(evidence("  ", worth_showing(a)[:3]))
        lines.extend(evidence("  against: ", a["counter_evidence"][:3]))
        if body["state"] in {"held", "failed"} and a is body["attempts"][-1]:
            lines.extend(f"  {line}" for line in advice(a))
    lines.extend(decided(a["decision"]) if a["decision"] else ())
    lines.extend(f"  left: {text}" for text in a["left"])
    if a.get("box"):
        lines.append(f"  box {box(a['box'])}")
    return lines


def advice(a: Mapping[str, Any]) -> list[str]:
    """What to do first about the end of an attempt."""
    return [
        f"advice: {item['do']}" + (f" ({item['why']})" if item["why"] else "") for item in a["advice"][:3]
    ]


def worth_showing(a: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Evidence that says more than the summary; where Runward's own hand is the root, the log says nothing of it."""
    ours = str(a["verdict"].get("root")).startswith("keeper_")
    return [
        item
        for item in a["evidence"]
        if item["text"] != a["verdict"]["summary"] and not (ours and item.get("source") == "log")
    ]


def decided(decision: Mapping[str, Any]) -> list[str]:
    """What was decided about an end; nothing where it was asked for."""
    lines = [f"  ended by Runward: {decision['ended_why']}"] if decision["ended"] else []
    told = decision["ended"] or decision["action"] != "none" or decision["would"]
    if "rule" in decision and told:  # else the end was asked for, and nothing is left to decide
        said = f"would {decision['would']}" if decision["would"] else decision["action"]
        lines.append(f"  decision: {said}: {short.reason(decision['reason'])}")
    return lines


def attempt_words(a: Mapping[str, Any]) -> str:
    """How an attempt began and ended, to stand behind its number."""
    words = []
    if a["resumed_from"]:
        words.append(f"resumed from {a['resumed_from']['path']}")
    if a["resume_mismatch"]:
        words.append("but the log names another checkpoint")
    if a["recovered_after_s"] is not None:
        words.append(f"new step after {durations.format_duration(a['recovered_after_s'])}")
    if a["ended_at"] is None:
        words.append("not started yet" if a["started_at"] is None else f"running as {a['job']}")
        if a["keeper"] and a["keeper"]["alive"] is False:
            words.append("its keeper was killed (the command goes on, the size of its log is not bounded)")
    else:
        at = f" at step {a['last_step']}" if a["last_step"] is not None else ""
        words.append(f"ended{at} with {_exit(a['exit'])}")
    return ": " + ", ".join(words)


def _exit(status: Mapping[str, Any] | None) -> str:
    if status is None or not status["seen"]:
        return "exit status not seen"
    return f"signal {status['signum']}" if status["signum"] is not None else f"exit code {status['code']}"


def evidence(lead: str, items: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line of text for each, with where it stands; none is longer than a screen is wide."""
    lines = []
    for item in items:
        place = item.get("source") or "log"
        if item.get("file"):
            place = str(item["file"]).rsplit("/", 1)[-1]
            place += f":{item['line']}" if item.get("line") is not None else ""
        rank = f" rank {item['rank']}" if item.get("rank") is not None else ""
        lines.append(f"{lead}{place}{rank}: {item['text'][:200]}")
    return lines


def checkpoints(body: Mapping[str, Any]) -> list[str]:
    """The newest complete checkpoint, and those that are set aside."""
    lines = []
    latest = body["latest_complete"]
    if latest:
        how = {
            "full": "complete",
            "structure": "complete (structure only)",
            "pending": "complete (not verified yet)",
        }
        lines.append(
            f"newest checkpoint: {latest['path']} ({how.get(latest['verified'], latest['verified'])})"
        )
    lines.extend(f"quarantined: {mark['path']} ({mark['why']})" for mark in body["quarantined"])
    return lines


def box(told: Mapping[str, Any]) -> str:
    """What a record says about the time of an end."""
    return f"{durations.format_duration(told['seconds_before'])} before its end: {told['summary']}"


def ledger(body: Mapping[str, Any]) -> list[str]:
    """What was only watched, line by line; of a run that acts, how often it was right."""
    if not body["entries"]:
        return []
    watched = [one for one in body["entries"] if not one["acted"]]
    scores = ", ".join(f"{body[word]} {word}" for word in ("right", "wrong", "open"))
    lines = [f"decisions so far: {scores}" + (" (nothing was done)" if watched else "")]
    for one in watched:
        wish = f"would {one['would']}: {short.reason(one['reason'])}"
        lines.append(f"  attempt {one['attempt']} ended with {one['cause']}: {wish}")
        lines.append(f"    {one['score']}: {one['why']}")
    return lines


def event(body: Mapping[str, Any]) -> str:
    """One line of `runward events`; `body` as `view.event` gives it."""
    if body["kind"] == "box":
        return f"{body['at']} box attempt={body['attempt']} {box(body)}"
    words = [f"{body['at']} {body['kind']}"]
    words += [_field(k, v) for k, v in body.items() if k not in _UNSAID and v not in _EMPTY]
    verdict = (body.get("diagnosis") or {}).get("verdict")
    if verdict:
        words.append(f"verdict={verdict['cause']}/{verdict['action']} ({verdict['certainty']})")
    return " ".join(words)


_UNSAID = frozenset({"schema_version", "kind", "at", "diagnosis", "learned", "undo"})
_EMPTY: tuple[object, ...] = (None, "", [], {}, (), False)


def _field(key: str, value: object) -> str:
    """One field of an event: flags by their name alone, lists as words."""
    if key == "exit" and isinstance(value, Mapping):
        return f"exit={_exit(value).removeprefix('exit code ').removeprefix('exit status ')}"
    if isinstance(value, list | tuple):
        return f"{key}={'; '.join(map(str, value))}"
    return key if value is True else f"{key}={value}"
