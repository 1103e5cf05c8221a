"""`runward run [options] -- CMD`: launch a command and keep it running."""

import os
import sys

import click

from runward.cli.amounts import DURATION, SIGNAL, SIZE
from runward.core import errors


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--name", help="Name of the run; the command's own name when it is not given.")
@click.option("--checkpoints", metavar="DIR", help="Where the training writes its checkpoints.")
@click.option(
    "--resume-arg",
    metavar="TEMPLATE",
    help="Added to CMD on a restart: '--load {path}'. Fields: path, step, dir.",
)
@click.option(
    "--resume-by",
    type=click.Choice(["arg", "env", "self"]),
    help="How the trainer learns what to load: its arguments, RUNWARD_RESUME_PATH, or it looks for itself.",
)
@click.option("--resume", is_flag=True, help="Let attempt 1 resume from the newest complete checkpoint too.")
@click.option(
    "--policy",
    metavar="NAME|FILE",
    help="When to restart, when to stop.  [default: default]",
)
@click.option("--grace", type=DURATION, help="Between the stop signal and SIGKILL.  [default: 60s]")
@click.option("--stop-signal", type=SIGNAL, help="Asks CMD to end.  [default: TERM]")
@click.option("--stall-after", type=DURATION, help="End an attempt that shows no progress for this long.")
@click.option(
    "--max-runtime", type=DURATION, help="End the run after this long, whatever it does (exit 124)."
)
@click.option(
    "--env", "environment", multiple=True, metavar="K=V", help="Set in CMD's environment; repeatable."
)
@click.option("--cwd", metavar="DIR", help="Where CMD starts.")
@click.option("--tty", is_flag=True, help="Give CMD a pseudo-terminal. It then needs its keeper alive.")
@click.option("--detach", is_flag=True, help="Return once CMD runs; go on watching in the background.")
@click.option("--log-dir", metavar="DIR", help="Where the output goes instead of the state directory.")
@click.option("--log-keep", type=SIZE, help="Output kept of an attempt.  [default: 2GiB]")
@click.option("--split", is_flag=True, help="Keep stdout and stderr in two files.")
@click.option(
    "--notify", multiple=True, metavar="CMD|URL", help="Told of held, failed, recovered, succeeded, blind."
)
@click.option(
    "--quarantine",
    type=click.Choice(["mark", "rename"]),
    help="What to do with a damaged checkpoint.  [default: mark]",
)
@click.option(
    "--hash-checkpoints", is_flag=True, help="Hash each checkpoint when it is complete, to find flips later."
)
@click.option(
    "--verify-rate",
    type=SIZE,
    help="Bytes a second read to verify; 0: no limit.  [default: 200MB]",
)
@click.option("--verify-budget", type=DURATION, help="Verification before a restart.  [default: 60s]")
@click.option("--progress-regex", metavar="REGEX", help="Your own step lines; groups: step, total, loss.")
@click.option("--heartbeat", metavar="FILE", help="A file whose one line says step=N [total=N loss=X].")
@click.option(
    "--end-on-nan", is_flag=True, help="End an attempt whose loss is not finite three reports in a row."
)
@click.option("--gpu-idle-after", type=DURATION, help="Act when the run's GPUs are idle for this long.")
@click.option(
    "--gpu-idle-below",
    type=click.FloatRange(0, 100),
    default=5.0,
    show_default=True,
    metavar="PCT",
    help="Use below which a GPU is idle.",
)
@click.option(
    "--gpu-idle",
    type=click.Choice(["any", "all"]),
    default="all",
    show_default=True,
    help="Whether one idle GPU of the run is enough.",
)
@click.option(
    "--take-over", is_flag=True, help="Use the checkpoint directory although another run claims it."
)
@click.option(
    "--on",
    "place",
    metavar="ssh:HOST/|pod:NS/POD/",
    help="Start it there. On a box over ssh its watcher lives there too, for a pod here.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, start nothing.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")
def run(**options: object) -> int:
    """Launch CMD and keep it running: everything after -- is CMD with its own flags, untouched."""
    from runward.wiring import launching

    command = options.pop("command")
    place = options.pop("place")
    if not command:
        raise errors.UsageError(
            errors.Problem(
                "no command",
                next_step="Write it after --: runward run -- python train.py",
            )
        )
    if place is not None and str(place).startswith("pod:"):
        from runward.wiring import pod_launched

        return pod_launched.launch(str(place), tuple(command), options, os.environ)  # type: ignore[arg-type]
    if place is not None:
        from runward.wiring import far_launching

        words = far_launching.without_place(sys.argv[sys.argv.index("run") + 1 :])
        return far_launching.launch(str(place), words)
    return launching.launch(tuple(command), options, os.environ)  # type: ignore[arg-type]  # click gives str
