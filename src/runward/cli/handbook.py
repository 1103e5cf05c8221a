"""`runward handbook RUN|--all`: what a new person or agent needs to take over, as Markdown."""

import json
import shlex
from typing import Any

import click

from runward.cli import printing


@click.command()
@click.argument("run", required=False)
@click.option("--all", "every", is_flag=True, help="All runs.")
def handbook(run: str | None, every: bool) -> None:
    """Print what runs, what was decided and why, checkpoints, and the commands to go on with."""
    from runward.core import errors
    from runward.ui import patrol_lines
    from runward.wiring import looking

    if bool(run) == every:
        raise errors.UsageError(errors.Problem("name one run, or say --all", where="runward handbook"))
    names = [row["run"] for row in looking.rows()] if every else [str(run)]
    for name in names:
        for line in _page(looking.status(name)):
            printing.data(patrol_lines.plain(line))


def _page(body: dict[str, Any]) -> list[str]:
    name = shlex.quote(str(body["run"]))
    newest = (body["checkpoints"] or {}).get("latest_complete")
    lines = [f"# {body['run']}: {body['state']}", ""]
    lines += [
        f"- where: {body['target']}; policy {body['policy']}; step {body['step']} of {body['total_steps']}"
    ]
    lines += [f"- why: {body['why']}"] if body.get("why") else []
    lines += [f"- newest complete checkpoint: {json.dumps(newest)}", ""]
    lines += ["## First command on reconnect", "", f"    runward status {name}", "", "## What happened", ""]
    for attempt in body["attempts"]:
        verdict, decision = attempt.get("verdict") or {}, attempt.get("decision") or {}
        ended = verdict.get("summary") or verdict.get("cause") or "no verdict"
        lines.append(
            f"- attempt {attempt['n']}: {ended}; decided: {decision.get('action')} ({decision.get('reason')})"
        )
    lines += ["", "## To go on", "", f"    runward watch {name}      # when nobody watches"]
    lines += [f"    runward restart {name}    # when held or ended", f"    runward logs {name}", ""]
    lines += [
        "## Not to be done",
        "",
        "- Do not start the command by hand beside a live attempt: two writers.",
    ]
    return [
        *lines,
        "- Do not delete the newest complete checkpoint; do not restart before the cause is known.",
        "",
    ]
