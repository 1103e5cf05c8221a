"""One bounded tick over some boxes: one round trip each, at most so many at once, judged as the answers come."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from runward import ports
from runward.core import far_facts, patrol_table, patrolling

_DEADLINE_S = 45.0
_ANSWER = 1 << 20


class Visit(NamedTuple):
    """A box, what is expected of it, and what was remembered."""

    runner: ports.Runner
    expected: patrolling.Expected
    before: patrolling.Remembered


def ask(
    runner: ports.Runner, questions: far_facts.Questions, probe: str, deadline_s: float = _DEADLINE_S
) -> far_facts.Facts | str:
    """One look; a string says why the box could not be asked."""
    call = ports.Call(("/bin/sh", "-s"), stdin=questions.script(probe), deadline_s=deadline_s, limit=_ANSWER)
    try:
        done = runner.run(call)
    except ports.ContactLost as lost:
        return str(lost)
    return far_facts.parse(done.text, questions)


class Limits(NamedTuple):
    """Of one tick."""

    at_once: int = 20
    within_s: float = 60.0


def tick(
    visits: Sequence[Visit], probe: str, now: Callable[[], float], limits: Limits | None = None
) -> Iterator[tuple[Visit, patrolling.Report, patrolling.Remembered]]:
    """Reports in the order in which the boxes answer; one that cannot be asked within the limit is said to be so."""
    limits = limits or Limits()
    ends_at = time.monotonic() + limits.within_s
    if len(visits) == 1:
        yield _visit(visits[0], probe, now, ends_at)
        return
    import concurrent.futures  # noqa: PLC0415 -- a look at one box, the common one, does without

    workers = max(1, min(limits.at_once, len(visits)))
    with concurrent.futures.ThreadPoolExecutor(max_workers=workers) as pool:
        ordered = in_order(visits, workers)
        waiting = [pool.submit(_visit, visit, probe, now, ends_at) for visit in ordered]
        for future in concurrent.futures.as_completed(waiting):
            yield future.result()


def in_order(visits: Sequence[Visit], workers: int) -> list[Visit]:
    """Boxes that were silent last time first, but on half of the connections only: their time-outs run meanwhile."""
    lost = [visit for visit in visits if visit.before.lost]
    others = [visit for visit in visits if not visit.before.lost]
    first = workers // 2
    return [*lost[:first], *others, *lost[first:]]


def _visit(
    visit: Visit, probe: str, now: Callable[[], float], ends_at: float
) -> tuple[Visit, patrolling.Report, patrolling.Remembered]:
    left = ends_at - time.monotonic()
    found: far_facts.Facts | str = "not asked: the time of this tick was over"
    if left > 0:
        found = ask(visit.runner, visit.expected.questions, probe, min(_DEADLINE_S, left))
    report, kept = patrol_table.judge(found, visit.expected, visit.before, now())
    return visit, report, kept
