"""`runward service`: install, remove and look at system services."""

import shlex

import click

from runward.cli import printing
from runward.core import errors, service_units

_NAMES = "|".join(service_units.VERBS)


class _Verb(click.ParamType[str]):
    """A verb that goes on without a terminal."""

    name = "verb"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from runward.cli import entry

        if value in service_units.VERBS:
            return str(value)
        why = "ends by itself, or needs a terminal" if value in entry.VERBS else "is no verb of Runward's"
        close = errors.nearest(str(value), service_units.VERBS)
        hint = f"; did you mean {close!r}?" if close else "."
        return self.fail(f"{value!r} {why}{hint} Services: {', '.join(service_units.VERBS)}.", param, ctx)


_VERB = _Verb()


def _understood(verb: str, args: tuple[str, ...]) -> None:
    """A unit that its verb refuses would be started again and again. Raises click.UsageError, UsageError."""
    from runward.cli import entry

    command = entry.cli.get_command(click.Context(entry.cli), verb)
    assert command is not None  # noqa: S101 -- for the type checker
    command.make_context(f"runward {verb}", list(args)).close()
    if verb == "serve":
        from runward.wiring import serving_pages

        serving_pages.require()


@click.group()
def service() -> None:
    """Keep a verb running on this box."""


@service.command()
@click.argument("verb", type=_VERB, metavar=_NAMES)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--user", is_flag=True, help="A unit of your own manager instead of the system's.")
@click.option("--account", default="", help="System unit: run as this account.")
@click.option("--state", default="", help="RUNWARD_STATE_DIR of the service.")
@click.option("--unit-dir", type=click.Path(), help="Write the unit there.")
@click.option("--no-start", is_flag=True, help="Write the unit, start nothing.")
@click.option("--tmux", is_flag=True, help="A detached tmux session instead: boxes without systemd.")
@click.option("--print", "show", is_flag=True, help="Print the unit (or the tmux command), do nothing.")
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
    from runward.wiring import services

    if account and (user or tmux):
        raise click.UsageError("--account is for units of the system; --user and --tmux run as you.")
    _understood(verb, args)
    around = services.environment(state, account)
    wanted = service_units.Service(verb, services.program(), user, args, around, account)
    if show:
        click.echo(
            shlex.join(service_units.tmux(wanted)) + "\n" if tmux else service_units.unit(wanted), nl=False
        )
        return
    where = services.place(user=user, folder=unit_dir)
    done = services.install_tmux(wanted) if tmux else services.install(wanted, where, start=not no_start)
    click.echo("\n".join(done))


@service.command()
@click.argument("verbs", nargs=-1, type=_VERB, metavar=f"[{_NAMES}]...")
@click.option("--user", is_flag=True, help="Of your own manager only.")
@click.option("--unit-dir", type=click.Path(), help="Look for units there only.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(verbs: tuple[str, ...], user: bool, unit_dir: str | None, as_json: bool) -> None:
    """What is installed, and whether it runs; exit 0 when all of it does, 1 when not, 3 when VERB is not installed."""
    from runward.ui import text
    from runward.wiring import service_states, services

    only = user or unit_dir is not None
    where = [services.place(user=one, folder=unit_dir) for one in ([user] if only else [False, True])]
    found = service_states.states(verbs or service_units.VERBS, tuple(where))
    if as_json:
        listed = [one.to_json() for one in found]
        printing.as_json({"schema_version": 1, "services": listed})
    else:
        rows = [(one.verb, one.word, one.place or None, one.told) for one in found]
        click.echo(text.table(("VERB", "STATE", "BY", ""), rows))
    click.get_current_context().exit(service_states.exit_code(found, named=bool(verbs)))


@service.command()
@click.argument("verb", type=_VERB, metavar=_NAMES)
@click.option("--user", is_flag=True, help="Of your own manager instead of the system's.")
@click.option("--unit-dir", type=click.Path(), help="Look for the unit there.")
def uninstall(verb: str, user: bool, unit_dir: str | None) -> None:
    """Stop VERB's service and remove it."""
    from runward.wiring import services

    click.echo("\n".join(services.uninstall(verb, services.place(user=user, folder=unit_dir))))
