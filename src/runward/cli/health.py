"""`runward health TARGET`: one report about a Ray job or a pod."""

import json

import click


@click.command()
@click.argument("target")
@click.option(
    "--pod", "pods", multiple=True, metavar="NS/POD", help="Ask this pod for GPUs and NCCL; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def health(target: str, pods: tuple[str, ...], as_json: bool) -> int:
    """Report on TARGET, ray:ID@URL or k8s:NAMESPACE/POD: state, step, network, resources, GPUs, issues by weight.

    Exit code 1 when there is an issue.
    """
    from runward.wiring import health as reports

    report = reports.report(target, pods)
    click.echo(json.dumps(report, indent=2) if as_json else "\n".join(reports.lines(report)))
    return 1 if report["issues"] else 0
