"""`runward config`: begin, validate, print and describe configuration."""

import json
import os

import click

from runward.cli import printing


@click.group()
def config() -> None:
    """Validate and print configuration. Mistakes are shown all at once, with file, line and key."""


@config.command()
@click.argument("path", required=False)
@click.option(
    "--kind",
    default="settings",
    show_default=True,
    help="settings, policy, inventory, chain, monitoring, restart or run",
)
@click.option("--force", is_flag=True, help="Replace a file that exists.")
def init(path: str | None, kind: str, force: bool) -> None:
    """Write a file to begin with (./runward.yaml); `-` prints it."""
    from runward.config import kinds
    from runward.core import errors

    if kind not in kinds.KINDS:
        raise errors.UsageError(
            errors.Problem(
                f"no kind {kind!r} (there are {', '.join(kinds.KINDS)})",
                "--kind",
                errors.nearest(kind, kinds.KINDS),
            )
        )
    text = kinds.template(kind)
    path = path or ("runward.yaml" if kind == "settings" else f"{kind}.yaml")
    if path == "-":
        print(text, end="")
        return
    if os.path.exists(path) and not force:
        raise errors.UsageError(
            errors.Problem("exists already", where=path, next_step="Give --force to replace it.")
        )
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    click.echo(f"wrote {path}", err=True)


@config.command()
@click.argument("files", nargs=-1)
@click.option(
    "--set", "options", multiple=True, metavar="KEY=VALUE", help="SECTION.KEY, or a Hydra override."
)
def validate(files: tuple[str, ...], options: tuple[str, ...]) -> None:
    """Check FILES, or without any the settings that hold here."""
    from runward.config import kinds, setting_files
    from runward.core import errors

    problems: list[errors.Problem] = []
    if not files:
        setting_files.load(_sources(options))
        print("settings: ok")
    for path in files:
        try:
            print(f"{path}: ok ({kinds.validate(path, options)})")
        except errors.UsageError as error:
            problems.extend(error.problems)
    if problems:
        raise errors.UsageError(*problems)


@config.command("print")
@click.argument("file", required=False)
@click.option("--origin", is_flag=True, help="Show who set each value: file and line, environment, default.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--set", "options", multiple=True, metavar="KEY=VALUE", help="SECTION.KEY, or a Hydra override."
)
def print_(file: str | None, origin: bool, as_json: bool, options: tuple[str, ...]) -> None:
    """The settings that hold here; or what FILE (run, monitoring, restart) is when composed."""
    rows = _composed(file, options) if file else _settings(options)
    if as_json:
        settings = [{"key": key, "value": value, "origin": where} for key, value, where in rows]
        printing.as_json({"schema_version": 1, "settings": settings})
        return
    width = max((len(key) for key, _, _ in rows), default=0)
    for key, value, where in rows:
        line = f"{key:<{width}}  {value if isinstance(value, str) else json.dumps(value)}"
        print(f"{line:<{width + 16}}  {where}" if origin else line)


def _settings(options: tuple[str, ...]) -> list[tuple[str, object, str]]:
    from runward.config import setting_files

    _, rows = setting_files.read_layers(_sources(options))
    return [(row.path, row.shown, row.where) for row in rows]


def _composed(file: str, options: tuple[str, ...]) -> list[tuple[str, object, str]]:
    from runward.config import autoexp_files, documents, kinds
    from runward.core import errors

    kind = kinds.kind_of(documents.load(file))
    if kind not in ("run", "monitoring", "restart"):
        what = f"is of kind {kind}: only run, monitoring and restart are composed"
        raise errors.UsageError(
            errors.Problem(what, where=file, next_step="config validate reads the others.")
        )
    return list(autoexp_files.origins(file, kind, options))


@config.command()
@click.argument("kind", default="settings")
def schema(kind: str) -> None:
    """JSON Schema of a KIND, for editors: settings, policy, inventory, chain, monitoring, restart or run."""
    from runward.config import kinds
    from runward.core import errors

    if kind not in kinds.KINDS:
        raise errors.UsageError(
            errors.Problem(
                f"no kind {kind!r} (there are {', '.join(kinds.KINDS)})",
                "",
                errors.nearest(kind, kinds.KINDS),
            )
        )
    print(json.dumps(kinds.schema(kind), indent=2))


def _sources(options: tuple[str, ...]) -> "setting_files.Sources":  # type: ignore[name-defined]  # noqa: F821
    from runward.config import documents, setting_files
    from runward.core import errors

    given: dict[str, object] = {}
    for option in options:
        path, equals, text = option.partition("=")
        if not equals or path.count(".") != 1:
            raise errors.UsageError(errors.Problem(f"{option!r} is not SECTION.KEY=VALUE", where="--set"))
        given[path] = documents.parse(text, f"--set {path}").data if text else None
    return setting_files.Sources(os.getcwd(), os.environ, given)
