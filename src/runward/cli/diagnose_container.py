"""`runward diagnose docker:...`: the part of the verb that asks an engine instead of reading files."""

from collections.abc import Mapping

import click

from runward.cli import printing
from runward.core import durations, errors

SCHEME = "docker:"
_OF_LOGS = {
    "--exit-code": "exit_code",
    "--scheduler-state": "scheduler_state",
    "--kernel-log": "kernel_log",
    "--until": "until",
    "--attempt": "attempt",
    "--context": "context_file",
    "--rules": "rule_files",
    "--explain": "explain",
}


def concerns(targets: tuple[str, ...]) -> bool:
    """Whether a target is a container."""
    return any(target.startswith(SCHEME) for target in targets)


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


def answer(targets: tuple[str, ...], options: Mapping[str, object]) -> int:
    """Print the post-mortem; exit 1 with --check when something is wrong. Raises UsageError."""
    from runward.wiring import container_reports

    name = _name(targets, options)
    form = "json" if options["as_json"] else str(options["form"])
    asked = container_reports.Asked(name, bool(options["all_dead"]), _since(options["since"]), form)
    try:
        found = container_reports.answer(asked)
    except errors.NotFound:
        if form != "classic" or name != "latest":
            raise
        from runward.ui import classic_container

        click.echo(classic_container.NONE)
        return 1
    for text in found.said:
        printing.said(text)
    click.echo(found.out, nl=False)
    if options["html"]:
        printing.write_file(str(options["html"]), container_reports.page(found.reports))
    if options["save"]:
        for report in found.reports:
            container_reports.save(report, str(options["save"]), printing.said)
    wrong = any(str(report.diagnosis.verdict.cause) != "none" for report in found.reports)
    return int(bool(options["check"]) and wrong)


def _name(targets: tuple[str, ...], options: Mapping[str, object]) -> str:
    """The container's name, `latest`, or nothing with --all-dead; what cannot be done together is refused."""
    if len(targets) > 1:
        first = next(target for target in targets if target.startswith(SCHEME))
        step = f"Write runward diagnose {first} alone, or docker: --all-dead."
        raise errors.UsageError(errors.Problem("one container at a time", " ".join(targets), None, step))
    name, everyone = targets[0].removeprefix(SCHEME), bool(options["all_dead"])
    if name and everyone:
        step = f"Write docker: --all-dead, or docker:{name} alone."
        raise errors.UsageError(errors.Problem("names one container", targets[0], None, step))
    if not name and not everyone:
        step = "Write docker:NAME, docker:latest or --all-dead."
        raise errors.UsageError(errors.Problem("which container?", targets[0], None, step))
    given = [option for option, key in _OF_LOGS.items() if options[key] not in {None, False, ()}]
    if options["since"] is not None and not everyone:
        given.append("--since without --all-dead")
    if given:
        step = f"The engine knows the rest. To read a log by itself: docker logs {name or 'NAME'} > FILE"
        raise errors.UsageError(*(errors.Problem("is not for containers", one, None, step) for one in given))
    return name


def _since(text: object) -> float:
    if text is None:
        return 3600.0
    try:
        return durations.parse_duration(str(text).removesuffix("ago").strip())
    except ValueError as error:
        raise errors.UsageError(errors.Problem(str(error), where="--since")) from None
