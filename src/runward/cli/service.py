"""`runward service`: install, remove and look at system services."""

import json

import click

_KNOWN = ("record", "watch")


class _Verb(click.Choice[str]):
    """A verb that goes on without a terminal."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from runward.cli import entry

        if value not in _KNOWN:
            why = "ends by itself, or needs a terminal" if value in entry.VERBS else "is no verb of Runward's"
            self.fail(f"{value!r} {why}: record and watch can be services.", param, ctx)
        return str(value)


_VERBS = _Verb(_KNOWN)


def _understood(verb: str, args: tuple[str, ...]) -> None:
    """A unit with words that the verb refuses would be started again and again. Raises click.UsageError."""
    from runward.cli import entry

    command = entry.cli.get_command(click.Context(entry.cli), verb)
    assert command is not None  # noqa: S101 -- for the type checker
    command.make_context(f"runward {verb}", list(args)).close()


@click.group()
def service() -> None:
    """Keep record or watch running on this box."""


@service.command()
@click.argument("verb", type=_VERBS, metavar="record|watch")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--user", is_flag=True, help="A unit of your own manager instead of the system's.")
@click.option("--account", default="", help="System unit: run as this account.")
@click.option("--state", default="", help="RUNWARD_STATE_DIR of the service.")
@click.option("--unit-dir", type=click.Path(), help="Write the unit there.")
@click.option("--no-start", is_flag=True, help="Write the unit, start nothing.")
@click.option("--tmux", is_flag=True, help="A detached tmux session instead: boxes without systemd.")
@click.option("--print", "show", is_flag=True, help="Print the unit, do nothing.")
def install(
    verb: str,
    args: tuple[str, ...],
    user: bool,
    account: str,
    state: str,
    unit_dir: str | None,
    no_start: bool,
    tmux: bool,
    show: bool,
) -> None:
    """Install VERB as a service; ARGS (after --) go to the verb."""
    from runward.core import service_units
    from runward.wiring import services

    _understood(verb, args)
    wanted = service_units.Service(verb, services.program(), user, args, state, account=account)
    if show:
        click.echo(service_units.unit(wanted), nl=False)
        return
    where = services.place(user=user, folder=unit_dir)
    done = services.install_tmux(wanted) if tmux else services.install(wanted, where, start=not no_start)
    click.echo("\n".join(done))


@service.command()
@click.option("--user", is_flag=True, help="Of your own manager instead of the system's.")
@click.option("--unit-dir", type=click.Path(), help="Look for the unit there.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(user: bool, unit_dir: str | None, as_json: bool) -> None:
    """What is installed, and whether it runs."""
    from runward.wiring import services

    where = services.place(user=user, folder=unit_dir)
    found = [services.status(verb, where) for verb in _KNOWN]
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "services": found}, indent=2))
        return
    for one in found:
        unit = "unit" if one["unit"] else "tmux" if one["tmux"] else "not installed"
        click.echo(f"{one['verb']:<8} {unit:<14} {one['active'] or 'manager not reachable'}")


@service.command()
@click.argument("verb", type=_VERBS, metavar="record|watch")
@click.option("--user", is_flag=True, help="Of your own manager instead of the system's.")
@click.option("--unit-dir", type=click.Path(), help="Look for the unit there.")
def uninstall(verb: str, user: bool, unit_dir: str | None) -> None:
    """Stop VERB's service and remove it."""
    from runward.wiring import services

    click.echo("\n".join(services.uninstall(verb, services.place(user=user, folder=unit_dir))))
