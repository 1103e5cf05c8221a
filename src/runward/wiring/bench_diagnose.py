"""Labelled cases through the diagnosis: predictions, and the figures by which they are judged."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runward.core import errors
from runward.wiring import diagnose

_STOP, _GO = {"hold", "change"}, {"restart", "restart_elsewhere", "resume_previous", "wait"}
_READ = ("id", "context", "log", "log_file", "logs")
"""All that a prediction may look at."""
_KINDS: Mapping[str, type] = {
    "context": dict,
    "log": str,
    "log_file": str,
    "logs": dict,
    "evidence": str,
    "accept_causes": list,
    "accept_actions": list,
}
_WORDS: Mapping[type, str] = {dict: "an object", str: "a text", list: "a list"}


def cases(path: str) -> list[dict[str, Any]]:
    """The cases of a JSON Lines file. Raises UsageError, NotFound."""
    try:
        with open(path, encoding="utf-8") as file:
            found = [json.loads(line) for line in file if line.strip()]
    except OSError as error:
        raise errors.NotFound(errors.Problem(f"cannot be read: {error.strerror}", path)) from None
    except ValueError as error:
        raise errors.UsageError(errors.Problem(f"not JSON Lines: {error}", path)) from None
    for number, case in enumerate(found, 1):
        if wrong := _fault(case):
            raise errors.UsageError(errors.Problem(f"case {number} is no labelled case: {wrong}", path))
    return found


def _fault(case: object) -> str | None:
    """Why this is no case; a label may be missing, but not be of another kind."""
    if not isinstance(case, dict):
        return "not an object"
    if not any(key in case for key in _READ[2:]):
        return f"it has none of {', '.join(_READ[2:])}"
    for key, kind in _KINDS.items():
        if not isinstance(case.get(key, kind()), kind):
            return f"{key} is not {_WORDS[kind]}"
    return None


def predictions(found: Iterable[Mapping[str, Any]], folder: str) -> Iterator[dict[str, Any]]:
    """One prediction a case, from what a prediction may read."""
    engine = diagnose.engine()
    for case in found:
        seen = {key: case[key] for key in _READ if key in case}
        begin = time.perf_counter()
        result = diagnose.case(engine, seen, folder)
        spent = (time.perf_counter() - begin) * 1000
        verdict = result.verdict
        yield {
            "id": case.get("id"),
            "cause": str(verdict.cause),
            "action": str(verdict.action),
            "rank": verdict.rank,
            "evidence": [item.text for item in (*result.evidence, *result.counter_evidence)],
            "ms": round(spent, 2),
        }


def score(found: Iterable[Mapping[str, Any]], guessed: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures over labelled cases, in all and by source; `wrong` names the misses."""
    by_id = {guess["id"]: guess for guess in guessed}
    tally: Counter[str] = Counter()
    sources: dict[str, Counter[str]] = {}
    wrong: list[dict[str, Any]] = []
    for case in found:
        marks = _marks(case, by_id.get(case.get("id"), {}))
        tally.update(marks)
        sources.setdefault(str(case.get("source", "")), Counter()).update(marks)
        if not (marks["cause"] and marks["action"]):
            guess = by_id.get(case.get("id"), {})
            wrong.append({"id": case.get("id"), "said": [guess.get("cause"), guess.get("action")]})
    times = sorted(guess.get("ms", 0.0) for guess in by_id.values())
    return {
        "schema_version": 1,
        **tally,
        "ms_median": times[len(times) // 2] if times else None,
        "ms_max": times[-1] if times else None,
        "sources": {name: dict(marks) for name, marks in sources.items()},
        "wrong": wrong,
    }


def _marks(case: Mapping[str, Any], guess: Mapping[str, Any]) -> Counter[str]:
    causes, actions = set(case.get("accept_causes", ())), set(case.get("accept_actions", ()))
    right = (guess.get("cause") in causes, guess.get("action") in actions)
    clean = case.get("cause") == "none"
    marks = Counter({"cases": 1, "cause": int(right[0]), "action": int(right[1]), "both": int(all(right))})
    marks["false_stop"] = int(guess.get("action") in _STOP and not actions & _STOP and not clean)
    marks["false_restart"] = int(guess.get("action") in _GO and not actions & _GO)
    marks["false_alarm"] = int(clean and not all(right))
    if case.get("culprit_rank") is not None:
        marks["ranked"], marks["rank"] = 1, int(guess.get("rank") == case["culprit_rank"])
    if case.get("evidence"):
        shown = "\n".join(guess.get("evidence") or [])
        marks["with_evidence"], marks["evidence"] = 1, int(case["evidence"][:60] in shown)
    return marks
