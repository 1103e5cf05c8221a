"""`runward diagnose`: why did it stop, with the lines that prove it."""

from typing import TYPE_CHECKING

import click

from runward.cli import amounts, printing

if TYPE_CHECKING:
    from runward.core import failures
    from runward.wiring import diagnose as wired

_NAMED = 64


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET|RUN|FILES...")
@click.option(
    "--exit-code", metavar="N|-N|A:B", help="How it ended: a code, minus a signal, or Slurm's code:signal."
)
@click.option(
    "--scheduler-state", metavar="WORD", help="The scheduler's word, e.g. TIMEOUT, NODE_FAIL, OOMKilled."
)
@click.option(
    "--kernel-log", multiple=True, metavar="FILE", help="The node's kernel log (dmesg, journalctl -k)."
)
@click.option("--since", metavar="TIME", help="Only lines from then on (2031-05-01T10:00:00, or 2h ago).")
@click.option("--until", metavar="TIME", help="Only lines up to then.")
@click.option(
    "--attempt",
    type=click.IntRange(1),
    metavar="N",
    help="The n-th attempt of an appended log; else the last.",
)
@click.option("--context", "context_file", metavar="FILE", help="JSON: what is known beside the log.")
@click.option("--rules", "rule_files", multiple=True, metavar="FILE", help="Further rule files.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--html", metavar="FILE", help="Write one self-contained page.")
@click.option("--explain", is_flag=True, help="Show what else was considered.")
@click.option("--all-dead", is_flag=True, help="docker: alone: every container that died --since (1h).")
@click.option(
    "--save",
    metavar="[DIR]",
    is_flag=False,
    flag_value=".",
    help="Also write text, HTML and JSON there, or here.",
)
@amounts.form("text", "classic", about="classic: containers, in the sections of the well-known script.")
@click.option("--check", is_flag=True, help="Exit 1 when something is wrong.")
def diagnose(**options: object) -> int:
    """Say why a run stopped: one log, one log a rank, or a target (docker:NAME, slurm:ID, local:PID, RUN)."""
    import gc

    gc.set_threshold(
        100_000
    )  # what is made to get ready stays; to look through it again and again is a tenth of a start
    from runward.cli import diagnose_container
    from runward.wiring import diagnose as wired

    targets = options["targets"]
    if isinstance(targets, tuple) and diagnose_container.concerns(targets):
        return diagnose_container.answer(targets, options)
    diagnose_container.refuse_for_others(options)
    question = _question(options)
    target = _named(question.targets)
    answer = wired.answer(question)
    for remark in answer.remarks:
        printing.said(remark)
    _show(answer, target, options)
    return int(bool(options["check"]) and str(answer.diagnosis.verdict.cause) != "none")


def _question(options: dict[str, object]) -> "wired.Question":
    from runward.wiring import diagnose as wired
    from runward.wiring import log_paths

    def texts(name: str) -> tuple[str, ...]:
        value = options[name]
        return tuple(str(item) for item in value) if isinstance(value, tuple) else ()

    attempt = options["attempt"]
    return wired.Question(
        targets=texts("targets"),
        context=wired.said(
            exit_code=_word(options, "exit_code"),
            state=_word(options, "scheduler_state"),
            context_file=_word(options, "context_file"),
        ),
        kernel_logs=texts("kernel_log"),
        attempt=attempt if isinstance(attempt, int) else None,
        since=log_paths.instant(_word(options, "since"), "--since"),
        until=log_paths.instant(_word(options, "until"), "--until"),
        rules=texts("rule_files"),
        explain=bool(options["explain"]),
    )


def _named(targets: tuple[str, ...]) -> str:
    """What was asked about; of very many files the first ones."""
    more = len(targets) - _NAMED
    return " ".join(targets) if more <= 0 else f"{' '.join(targets[:3])} and {len(targets) - 3} more"


def _word(options: dict[str, object], name: str) -> str | None:
    value = options[name]
    return None if value is None else str(value)


def _show(answer: "wired.Answer", target: str, options: dict[str, object]) -> None:
    found = answer.diagnosis
    body = found.to_json(target) | ({"box": answer.box} if answer.box else {})
    _print(answer, target, options, body)
    if options["html"]:
        from runward.ui import page_diagnosis

        printing.write_file(str(options["html"]), page_diagnosis.page(found, target))
    if options["save"]:
        _save(found, target, str(options["save"]), body)


def _print(
    answer: "wired.Answer",
    target: str,
    options: dict[str, object],
    body: dict[str, object],
) -> None:
    if options["as_json"]:
        if options["explain"]:
            body["considered"] = answer.weighed
        printing.as_json(body)
        return
    from runward.ui import text_diagnosis

    for text in text_diagnosis.lines(answer.diagnosis, target):
        click.echo(text)
    if answer.box:
        from runward.ui import text as texts

        click.echo(f"  box {texts.box(answer.box)}")
    if options["explain"]:
        for text in text_diagnosis.considered(answer.weighed):
            click.echo(text)


def _save(found: "failures.Diagnosis", target: str, folder: str, value: dict[str, object]) -> None:
    import time

    from runward.ui import page_diagnosis, text_diagnosis
    from runward.wiring import saved_reports

    text = "".join(f"{line}\n" for line in text_diagnosis.lines(found, target))
    page = page_diagnosis.page(found, target)
    name = target.rstrip("/").rpartition("/")[2]
    report = saved_reports.Report(name, str(found.verdict.cause), text, page, value)
    saved_reports.write(report, folder, time.time(), printing.said)
