"""`runward submit --on PLACE SCRIPT ARG...`: the same as `run`, through a scheduler."""

import os

import click

from runward.cli.amounts import DURATION, SIGNAL
from runward.core import errors


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--on", "place", required=True, metavar="slurm|docker|ray|k8s", help="Which scheduler.")
@click.option("--name", help="Name of the run; the script's own name when it is not given.")
@click.option(
    "--place-arg",
    "--sbatch",
    "--docker",
    "extra",
    multiple=True,
    metavar="OPTION",
    help="The place's own option, given to every submit: --place-arg=--partition=gpu, --place-arg memory=8g; "
    "repeatable. --sbatch and --docker are the same.",
)
@click.option("--checkpoints", metavar="DIR", help="Where the training writes its checkpoints.")
@click.option(
    "--resume-arg",
    metavar="TEMPLATE",
    help="Added to the script's arguments on a restart: '--load {path}'. Fields: path, step, dir.",
)
@click.option("--resume-by", type=click.Choice(["arg", "env", "self"]), help="How the trainer learns it.")
@click.option(
    "--restart-by",
    type=click.Choice(["submit", "requeue"]),
    help="Slurm: a new job, or the same one queued again under its id.  [default: submit]",
)
@click.option("--resume", is_flag=True, help="Let attempt 1 resume from the newest complete checkpoint too.")
@click.option("--policy", metavar="NAME|FILE", help="When to restart, when to stop.  [default: default]")
@click.option(
    "--monitoring", metavar="NAME|FILE", help="Signals to record and act on, e.g. megatron_production."
)
@click.option("--grace", type=DURATION, help="Between the stop signal and the cancel.  [default: 60s]")
@click.option("--stop-signal", type=SIGNAL, help="Asks the job to end.  [default: TERM]")
@click.option("--stall-after", type=DURATION, help="End an attempt that shows no progress for this long.")
@click.option("--max-runtime", type=DURATION, help="End the run after this long, whatever it does.")
@click.option("--env", "environment", multiple=True, metavar="K=V", help="Set in the job's environment.")
@click.option("--cwd", metavar="DIR", help="Where the job is submitted from.")
@click.option("--log", metavar="PATTERN", help="Further logs that the job's steps write; %j, %A, %a, %x, %t.")
@click.option("--progress-regex", metavar="REGEX", help="Your own step lines; groups: step, total, loss.")
@click.option("--end-on-nan", is_flag=True, help="End an attempt whose loss is not finite.")
@click.option(
    "--notify", multiple=True, metavar="CMD|URL", help="Told of held, failed, recovered, succeeded, blind."
)
@click.option("--detach", is_flag=True, help="Return once the job is submitted; watch in the background.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, submit nothing.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def submit(**options: object) -> int:
    """Submit SCRIPT with its arguments and keep it running: after an end that a restart can help, submit it again."""
    from runward.wiring import submitting

    command = options.pop("command")
    if not command:
        raise errors.UsageError(
            errors.Problem(
                "no script", "runward submit", next_step="Write it last: runward submit --on slurm job.sh"
            )
        )
    return submitting.submit(tuple(command), options, os.environ)  # type: ignore[arg-type]  # click gives str
