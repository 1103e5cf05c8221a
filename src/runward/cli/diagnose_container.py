"""`runward diagnose docker:...`: the part of the verb that asks an engine instead of reading files."""

import sys
from collections.abc import Mapping

import click

from runward.core import durations, errors

SCHEME = "docker:"


def concerns(targets: tuple[str, ...]) -> bool:
    """Whether the one target is a container."""
    return len(targets) == 1 and targets[0].startswith(SCHEME)


def refuse_for_others(options: Mapping[str, object]) -> None:
    """An option of containers alone is not ignored without a word. Raises UsageError."""
    given = (
        "--all-dead" if options["all_dead"] else "--format classic" if options["form"] == "classic" else ""
    )
    if given:
        raise errors.UsageError(
            errors.Problem(
                "is for containers", where=given, next_step="Write docker:NAME, or docker: --all-dead."
            )
        )


def answer(target: str, options: Mapping[str, object]) -> int:
    """Print the post-mortem; exit 1 with --check when something is wrong."""
    from runward.wiring import container_reports

    name = target.removeprefix(SCHEME)
    if not name and not options["all_dead"]:
        raise errors.UsageError(
            errors.Problem(
                "which container?", where=target, next_step="Write docker:NAME, docker:latest or --all-dead."
            )
        )
    form = "json" if options["as_json"] else str(options["form"])
    save = options["save"]
    asked = container_reports.Asked(
        name, bool(options["all_dead"]), _since(options["since"]), form, str(save) if save else None
    )
    found = container_reports.answer(asked)
    for text in found.said:
        print(f"runward: {text}", file=sys.stderr)
    click.echo(found.out, nl=False)
    wrong = any(str(report.diagnosis.verdict.cause) != "none" for report in found.reports)
    return int(bool(options["check"]) and wrong)


def _since(text: object) -> float:
    if text is None:
        return 3600.0
    try:
        return durations.parse_duration(str(text).removesuffix("ago").strip())
    except ValueError as error:
        raise errors.UsageError(errors.Problem(str(error), where="--since")) from None
