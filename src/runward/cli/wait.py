"""`runward wait TARGET --until COND`: block until a condition holds; it always ends."""

import signal
from typing import NoReturn

import click

from runward.cli import printing
from runward.cli.amounts import DURATION


@click.command()
@click.argument("target")
@click.option(
    "--until",
    "condition",
    default="done",
    show_default=True,
    metavar="COND",
    help="done, failed, step>=N, exists:PATH; anything else is a regular expression for the log.",
)
@click.option("--timeout", type=DURATION, default=10800.0, help="Give up after this long.  [default: 3h]")
@click.option("--poll", type=DURATION, default=90.0, help="Between two looks.  [default: 90s]")
@click.option("--match", metavar="REGEX", help="For a log: give up when no such process lives there.")
@click.option("--stall-after", type=DURATION, help="For a log: give up when it has not grown for so long.")
@click.option("--replace", is_flag=True, help="End the wait that there is for this target.")
@click.option("--json", "as_json", is_flag=True, help="One object at the end.")
def wait(
    target: str,
    condition: str,
    timeout: float,
    poll: float,
    match: str | None,
    stall_after: float | None,
    replace: bool,
    as_json: bool,
) -> int:
    """Exit 0 when the condition is met, 1 when it is given up or can no longer be met.

    TARGET: a run (its current attempt counts), file:PATH or ssh:HOST/file:PATH (the whole file counts), or
    ssh:HOST/run:NAME, a run of the box's own Runward.
    """
    from runward.wiring import waiting

    signal.signal(signal.SIGTERM, _replaced)
    ask = waiting.asker(target, condition, waiting.Life(match, stall_after))
    with waiting.registered(target, condition, replace=replace):
        code, why = waiting.poll(ask, timeout, max(poll, 0.1), printing.said)
    if as_json:
        printing.as_json(
            {"schema_version": 1, "target": target, "until": condition, "met": code == 0, "why": why}
        )
    else:
        printing.data(why)
    return code


def _replaced(signum: int, frame: object) -> NoReturn:
    del signum, frame
    printing.said("another wait took this one's place")
    raise SystemExit(1)
