"""Asks a list of checks side by side, each within its time; a check that hangs is a finding."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runward.core import findings


@dataclass(frozen=True, slots=True)
class Check:
    """One area, and the question that gives its findings."""

    area: str
    ask: Callable[[], Sequence[findings.Finding]]


def examine(checks: Sequence[Check], deadline_s: float) -> list[findings.Finding]:
    """All findings in the order of the checks, within the deadline; late checks are named as not answered."""
    answers: queue.SimpleQueue[tuple[int, Sequence[findings.Finding]]] = queue.SimpleQueue()
    for number, check in enumerate(checks):
        threading.Thread(
            target=_ask, args=(number, check, answers), name=f"check {check.area}", daemon=True
        ).start()
    found: dict[int, Sequence[findings.Finding]] = {}
    end = time.monotonic() + deadline_s
    while len(found) < len(checks):
        try:
            number, answer = answers.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        found[number] = answer
    late = {
        number: [findings.Finding(check.area, findings.Level.UNSEEN, f"no answer within {deadline_s:g} s")]
        for number, check in enumerate(checks)
        if number not in found
    }
    return [finding for number in range(len(checks)) for finding in (found | late)[number]]


def _ask(
    number: int, check: Check, answers: "queue.SimpleQueue[tuple[int, Sequence[findings.Finding]]]"
) -> None:
    try:
        answers.put((number, check.ask()))
    except Exception as error:  # noqa: BLE001 -- the border of a thread that we started
        answers.put(
            (number, [findings.Finding(check.area, findings.Level.UNSEEN, f"the check failed: {error}")])
        )
