"""`runward setup`: prepare a host."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from runward.cli import printing
from runward.core import errors


@click.group()
def setup() -> None:
    """Prepare a host."""


@setup.command("docker-logging")
@click.option(
    "--config",
    "path",
    default="/etc/docker/daemon.json",
    show_default=True,
    type=click.Path(),
    help="The engine's configuration file.",
)
@click.option("--max-size", default="100m", show_default=True, metavar="SIZE", help="Size of one log file.")
@click.option(
    "--max-file", default=5, show_default=True, type=click.IntRange(min=1), help="Files of each container."
)
@click.option(
    "--live-restore/--no-live-restore",
    default=True,
    show_default=True,
    help="Containers outlive a restart of the engine.",
)
@click.option("--default-runtime", help="Also set this (else it stays as it is).")
@click.option("--storage-driver", help="Also set this (else it stays as it is).")
@click.option("--data-root", help="Also set this (else it stays as it is).")
@click.option(
    "--userland-proxy/--no-userland-proxy", default=None, help="Also set this (else it stays as it is)."
)
@click.option("--dry-run", is_flag=True, help="Show the change, write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--restart/--no-restart", default=False, show_default=True, help="Restart the engine afterwards."
)
@click.option("--undo", is_flag=True, help="Put the newest backup in place again.")
@click.option("--json", "as_json", is_flag=True, help="What was done, as JSON.")
def docker_logging(
    path: str, dry_run: bool, yes: bool, restart: bool, undo: bool, as_json: bool, **wished: Any
) -> None:
    """Keep container logs after an end, bounded and packed; merges into the engine's configuration."""
    from runward.core import daemon_json
    from runward.wiring import docker_setup

    if undo:
        used = docker_setup.undo(path)
        _say(as_json, {"restored": used}, f"restored {path} from {used}")
        return
    wish = daemon_json.Wish(nvidia=docker_setup.nvidia_installed(), **wished)
    change = docker_setup.prepare(path, wish)
    if not as_json:
        click.echo(change.diff or f"{path} says all that already", nl=not change.diff)
        click.echo(f"validated by {change.checked_by}", err=True)
    if not change.same:
        _warn(change.dying, restart=restart)
    if dry_run or change.same:
        if as_json:
            _say(as_json, {"changed": False, "same": change.same, "diff": change.diff}, "")
        elif dry_run:
            click.echo("nothing was written", err=True)
        return
    if not yes and not printing.agreed(f"Write {path}?"):
        raise errors.UsageError(
            errors.Problem("nothing was written", next_step="Use --yes to write without a question.")
        )
    backup = docker_setup.write(change)
    said = (
        docker_setup.restart(path, backup)
        if restart
        else "restart the engine when no container matters: systemctl restart docker"
    )
    answer = {"changed": True, "backup": backup, "diff": change.diff, "restarted": restart}
    _say(as_json, answer, f"written; backup {backup or 'none: there was no file'}; {said}")


def _warn(dying: Sequence[str] | None, *, restart: bool) -> None:
    click.echo("live-restore protects containers from the next restart on, not from this one", err=True)
    if dying is None:
        click.echo("the engine cannot be asked which containers run now", err=True)
    elif dying:
        when = "WILL END NOW" if restart else "would end with a restart now"
        click.echo(f"{len(dying)} containers {when}: {', '.join(dying[:20])}", err=True)


def _say(as_json: bool, answer: Mapping[str, object], text: str) -> None:
    if as_json:
        printing.as_json({"schema_version": 1, **answer})
    else:
        click.echo(text)
