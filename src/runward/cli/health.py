"""`runward health TARGET`: one report about a training, wherever it is."""

from typing import TYPE_CHECKING

import click

from runward.cli import amounts, printing

if TYPE_CHECKING:
    from runward.core import health as core


@click.command()
@click.argument("target")
@click.option(
    "--pod", "pods", multiple=True, metavar="NS/POD", help="Ask this pod for GPUs and NCCL; repeatable."
)
@click.option("--checkpoints", metavar="DIR", help="Where it saves; with --pod as the pod sees it.")
@click.option("--watch", is_flag=True, help="Look again and again until it is over.")
@click.option("--every", default="10s", show_default=True, type=amounts.DURATION, help="Between two looks.")
@click.option("--json", "as_json", is_flag=True, help="As JSON; with --watch one line a look.")
def health(
    target: str, pods: tuple[str, ...], checkpoints: str | None, watch: bool, every: float, as_json: bool
) -> int:
    """Report on TARGET: state, step, rate, network, resources, GPUs, checkpoints, and issues by weight.

    TARGET is ray:ID@URL, k8s:NAMESPACE/POD, slurm:JOBID, docker:NAME or the name of a run. Exit code 1 when
    there is an issue.
    """
    from runward.wiring import health as reports
    from runward.wiring import health_looks

    asked = health_looks.Asked(pods, checkpoints)
    if not watch:
        seen = reports.look(target, asked)
        if as_json:
            printing.as_json(reports.to_json(seen))
        else:
            click.echo("\n".join(reports.lines(seen)))
        return _code(seen)
    for number, seen in enumerate(reports.watch(target, asked, every)):
        if as_json:
            printing.as_line(reports.to_json(seen))
        else:
            click.echo(("\n" if number else "") + "\n".join(reports.lines(seen)))
    return _code(seen)


def _code(seen: "core.Health") -> int:
    from runward.core import health as judging

    return 1 if judging.issues(seen) else 0
