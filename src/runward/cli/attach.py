"""`runward attach TARGET`: watch something that already runs."""

import sys

import click

from runward.cli.amounts import DURATION


@click.command()
@click.argument("target")
@click.option("--name", help="Name of the run; made from the target when it is not given.")
@click.option(
    "--log", metavar="FILE", help="The log of a local process; else where its output goes, if that is a file."
)
@click.option("--checkpoints", metavar="DIR", help="Where the training writes its checkpoints.")
@click.option(
    "--until-idle", type=DURATION, help="For file: targets: over when nothing was written for this long."
)
@click.option(
    "--act", is_flag=True, help="Hand it over: stalls end it and the policy restarts it; else only watch."
)
@click.option(
    "--monitoring", metavar="NAME|FILE", help="Signals to record and act on, e.g. megatron_production."
)
@click.option("--resume-arg", metavar="TEMPLATE", help="With --act: added to the command on a restart.")
@click.option(
    "--restart-by",
    type=click.Choice(["submit", "requeue"]),
    help="With --act, Slurm: a new job, or the same one queued again under its id.  [default: submit]",
)
@click.option("--policy", metavar="NAME|FILE", help="When to restart, when to stop.  [default: default]")
@click.option(
    "--stall-after", type=DURATION, help="With --act: end it when it shows no progress for this long."
)
@click.option("--progress-regex", metavar="REGEX", help="Your own step lines; groups: step, total, loss.")
@click.option(
    "--notify", multiple=True, metavar="CMD|URL", help="Told of held, failed, recovered, succeeded, blind."
)
@click.option("--detach", is_flag=True, help="Watch in the background.")
def attach(target: str, **given: object) -> int:
    """Watch TARGET: local:PID, file:PATH, docker:NAME, slurm:JOBID[@CLUSTER], ray:ID@http://host:8265, k8s:NS/NAME,
    pod:NS/POD/local:PID.

    ssh:HOST/TARGET is watched by the Runward of that box, in the background there.
    """
    if target.startswith("ssh:"):
        from runward.wiring import far_launching

        return far_launching.attach(target, sys.argv[sys.argv.index("attach") + 1 :])
    from runward.wiring import attaching

    return attaching.attach(target, given)
