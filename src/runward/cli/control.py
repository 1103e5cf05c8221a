"""`runward stop|restart|pause|unpause RUN`: what people ask of a run."""

import click

from runward.cli.amounts import DURATION


@click.command()
@click.argument("run")
@click.option(
    "--grace", type=DURATION, help="Between the stop signal and SIGKILL; the run's own when not given."
)
@click.option("--now", is_flag=True, help="SIGKILL at once.")
@click.option("--wait/--no-wait", default=True, help="Return when the run has ended (default), or at once.")
def stop(run: str, grace: float | None, now: bool, wait: bool) -> int:
    """End a run with grace; it is `stopped`, and not restarted."""
    from runward.wiring import controlling

    return controlling.ask(run, "stop", {"grace_s": grace, "now": now}, wait=wait)


@click.command()
@click.argument("run")
@click.option(
    "--wait/--no-wait", default=True, help="Return when the new attempt runs (default), or at once."
)
def restart(run: str, wait: bool) -> int:
    """Go on with a held or ended run from its newest complete checkpoint; a live one is ended first."""
    from runward.wiring import controlling

    return controlling.ask(run, "restart", {}, wait=wait)


@click.command()
@click.argument("run")
def pause(run: str) -> int:
    """Go on watching and decide nothing; the training is not touched."""
    from runward.wiring import controlling

    return controlling.ask(run, "pause", {}, wait=True)


@click.command()
@click.argument("run")
def unpause(run: str) -> int:
    """Decide again."""
    from runward.wiring import controlling

    return controlling.ask(run, "unpause", {}, wait=True)
