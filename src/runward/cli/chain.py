"""`runward chain`: stages one after another on this box, each only after the one before exited 0."""

import os
import sys
from typing import Any

import click

from runward.cli import printing
from runward.cli.amounts import DURATION, SIZE


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False), metavar="[FILE.yaml]")
@click.option(
    "--stage", "words", multiple=True, metavar="NAME='COMMAND'", help="A stage; argv, no shell. In order."
)
@click.option("--log", metavar="PATH", help="All output.  [default: chain.log]")
@click.option("--marker", metavar="PATH", help="Made after the last stage.  [default: STAGE_DONE]")
@click.option("--stage-timeout", type=DURATION, help="End a stage that takes longer (exit 124).")
@click.option(
    "--min-free", type=SIZE, default=1 << 30, help="Free bytes wanted before a stage.  [default: 1GiB]"
)
@click.option(
    "--min-free-inodes",
    type=int,
    default=10_000,
    show_default=True,
    help="Fewer, and a stage does not start.",
)
@click.option("--disk", "disks", multiple=True, metavar="PATH", help="Check space here too.")
@click.option("--notify", multiple=True, metavar="CMD|URL", help="Told after each stage.")
@click.option("--foreground", is_flag=True, help="Stay; exit with the chain's code.")
def chain(**options: Any) -> int:
    """Run stages in order, detached. Finished ones are skipped when it is run again.

    Exit 3: too little space before a stage began.
    """
    from runward.app import chain as app
    from runward.wiring import chaining

    plan, notify = _plan(options)
    chaining.check(plan, notify)
    words = [word for word in sys.argv[sys.argv.index("chain") + 1 :] if word != "--foreground"]
    if options["foreground"]:
        return chaining.run(plan, notify, words)
    why = app.short_of_space(plan)
    if why is not None:
        printing.said(f"DISK_GATE_ABORT: {why}")
        return app.GATE
    pid = chaining.detach(words, plan.log)
    printing.data(f"chain runs as {pid}, detached; log {plan.log}, marker {plan.marker}")
    return 0


def _plan(options: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
    from runward.app import chain as app
    from runward.core import stages

    found: dict[str, Any] = {"stages": (), "log": "chain.log", "marker": "STAGE_DONE", "notify": ()}
    if options["file"]:
        from runward.config import chain_files

        found = chain_files.load(options["file"])
    made = (*found["stages"], *(stages.parse(word) for word in options["words"]))
    limit = options["stage_timeout"]
    made = tuple(stages.Stage(s.name, s.argv, s.timeout_s or limit, s.cwd) for s in made)
    marker = os.path.abspath(options["marker"] or found["marker"])
    plan = app.Plan(
        stages=made,
        log=os.path.abspath(options["log"] or found["log"]),
        marker=marker,
        folder=os.path.dirname(marker),
        min_free_bytes=options["min_free"],
        min_free_inodes=options["min_free_inodes"],
        disks=options["disks"],
    )
    return plan, (*found["notify"], *options["notify"])
