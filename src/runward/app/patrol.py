"""One bounded tick over some boxes: one round trip each, at most so many at once, judged as the answers come."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from runward import ports
from runward.core import far_facts, patrolling

_DEADLINE_S = 45.0
_ANSWER = 1 << 20


class Visit(NamedTuple):
    """A box, what is expected of it, and what was remembered."""

    runner: ports.Runner
    expected: patrolling.Expected
    before: patrolling.Remembered


def ask(runner: ports.Runner, questions: far_facts.Questions, probe: str) -> far_facts.Facts | str:
    """One look; a string says why the box could not be asked."""
    call = ports.Call(("/bin/sh", "-s"), stdin=questions.script(probe), deadline_s=_DEADLINE_S, limit=_ANSWER)
    try:
        done = runner.run(call)
    except ports.ContactLost as lost:
        return str(lost)
    return far_facts.parse(done.text, questions)


def tick(
    visits: Sequence[Visit], probe: str, now: Callable[[], float], at_once: int = 20
) -> Iterator[tuple[Visit, patrolling.Report, patrolling.Remembered]]:
    """Reports in the order in which the boxes answer."""
    if len(visits) == 1:
        yield _visit(visits[0], probe, now)
        return
    import concurrent.futures  # noqa: PLC0415 -- a look at one box, the common one, does without

    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, min(at_once, len(visits)))) as pool:
        waiting = [pool.submit(_visit, visit, probe, now) for visit in visits]
        for future in concurrent.futures.as_completed(waiting):
            yield future.result()


def _visit(
    visit: Visit, probe: str, now: Callable[[], float]
) -> tuple[Visit, patrolling.Report, patrolling.Remembered]:
    found = ask(visit.runner, visit.expected.questions, probe)
    report, kept = patrolling.judge(found, visit.expected, visit.before, now())
    return visit, report, kept
