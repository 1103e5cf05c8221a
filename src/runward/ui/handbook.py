"""The page that lets a new person or agent take a run or a chain over, as Markdown."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from runward.core import errors, redact, resume

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class About:
    """What the page says beside the run's status."""

    host: str
    folder: str
    """Where the run's own files lie."""
    argv: tuple[str, ...] = ()
    cwd: str = ""
    checkpoints: str | None = None
    how: resume.How = field(default_factory=resume.How)
    """How an attempt learns what to resume from."""


def page(body: Mapping[str, Any], about: About) -> str:
    """The handbook of a run, from the object of `status --json`; secrets are masked."""
    name = shlex.quote(str(body["run"]))
    rows = [
        f"# {body['run']}: {body['state']}",
        "",
        "## First command on reconnect",
        "",
        f"    runward status {name}",
        "",
        "Processes and files decide what is true; what an earlier session believed does not.",
        "",
        *_what(body, about),
        "",
        "## What happened, and what was decided",
        "",
        *_attempts(body),
        "",
        *_go_on(name, body, about),
        "",
        *_never(body),
    ]
    return _clean(rows)


def _what(body: Mapping[str, Any], about: About) -> Iterator[str]:
    newest = (body["checkpoints"] or {}).get("latest_complete") or {}
    yield "## What runs where"
    yield ""
    yield f"- on {about.host}: {body['target'] or body['backend']}, policy {body['policy']}"
    yield f"- step {_or(body['step'], '?')} of {_or(body['total_steps'], '?')}"
    if body.get("why"):
        yield f"- now: {body['why']}"
    if about.argv:
        yield f"- command: `{shlex.join(about.argv)}` in `{about.cwd}`"
    yield f"- checkpoints: {f'`{about.checkpoints}`' if about.checkpoints else 'none were named'}"
    path, step = newest.get("path"), _or(newest.get("step"), "?")
    yield f"- newest complete checkpoint: {f'`{path}` (step {step})' if path else 'none'}"
    yield f"- journal, logs and this page: `{about.folder}`"


def _attempts(body: Mapping[str, Any]) -> Iterator[str]:
    if len(body["attempts"]) > _ATTEMPTS:
        yield f"- {len(body['attempts']) - _ATTEMPTS} earlier attempts: runward status"
    for attempt in body["attempts"][-_ATTEMPTS:]:
        verdict, decision = attempt.get("verdict") or {}, attempt.get("decision") or {}
        if not verdict and not decision:
            goes_on = attempt is body["attempts"][-1] and body["state"] in {"running", "restarting"}
            yield f"- attempt {attempt['n']}: {'runs' if goes_on else 'no end was seen'}"
            continue
        ended = verdict.get("summary") or verdict.get("cause") or "no verdict"
        yield f"- attempt {attempt['n']}: {ended}"
        if decision:
            yield f"  - decided: {decision.get('action')}, because {decision.get('reason')}"
    if not body["attempts"]:
        yield "- no attempt yet"


def _go_on(name: str, body: Mapping[str, Any], about: About) -> Iterator[str]:
    yield "## To go on"
    yield ""
    yield f"    runward watch {name}       # when nobody watches; it resumes by itself"
    yield f"    runward restart {name}     # when held or ended; from the newest complete checkpoint"
    yield f"    runward diagnose {name}    # why it ended, with the lines that prove it"
    yield f"    runward logs {name}"
    if about.checkpoints:
        yield f"    runward checkpoints verify {shlex.quote(about.checkpoints)}"
    if about.argv and not body.get("observe_only"):
        yield ""
        origin, command = _by_hand(body, about)
        yield f"By hand, only when nothing of it lives; {origin}:"
        yield ""
        yield f"    cd {shlex.quote(about.cwd)} && {command}"


def _by_hand(body: Mapping[str, Any], about: About) -> tuple[str, str]:
    """What it begins from, and the exact command, its variables in front: a person may copy it."""
    newest = (body["checkpoints"] or {}).get("latest_complete") or {}
    path, directory = newest.get("path"), about.checkpoints or about.cwd
    try:
        looks_itself = resume.mode_of(about.argv, about.how) is resume.Mode.SELF
        command = resume.by_hand(about.argv, about.how, path, newest.get("step"), directory)
    except errors.UsageError as error:  # an older Runward may have taken what this one refuses
        return str(error), shlex.join(about.argv)
    if path is None:
        return "no complete checkpoint is known, so it starts from the beginning", command
    if looks_itself:
        return "the program itself must find the newest checkpoint", command
    return "from the newest complete checkpoint", command


def _never(body: Mapping[str, Any]) -> Iterator[str]:
    yield "## Not to be done"
    yield ""
    yield "- Do not start the command by hand beside a live attempt: two writers."
    yield "- Do not delete the newest complete checkpoint."
    yield "- Do not restart before the cause is known; one that needs a change comes back."
    if body.get("observe_only"):
        yield "- It was not started here: restarting is its owner's."


class Stage(NamedTuple):
    """A stage of a chain on its page."""

    name: str
    argv: tuple[str, ...]
    word: str
    """`done`, `runs`, `waits`, `exit 3`."""


def chain_page(stages: Sequence[Stage], log: str, marker: str, again: str) -> str:
    """The handbook of a chain; `again` is the command line that goes on behind what is done."""
    state = "done" if all(stage.word == "done" for stage in stages) else "not done"
    first = f"    ls -l {shlex.quote(marker)}; tail -n 20 {shlex.quote(log)}"
    rows = [f"# chain {log}: {state}", "", "## First command on reconnect", "", first, ""]
    rows += ["## Stages", ""]
    rows += [f"- {stage.name}: {stage.word}: `{shlex.join(stage.argv)}`" for stage in stages]
    rows += ["", f"`{marker}` comes after the last stage, and only then all is done.", ""]
    rows += [
        "## To go on",
        "",
        f"    {again}",
        "",
        "Finished stages are skipped; a second chain is refused.",
        "",
    ]
    rows += ["## Not to be done", ""]
    rows += [
        "- Do not make the marker or a `.done` file by hand.",
        "- Do not run a stage by hand beside the chain.",
    ]
    return _clean(rows)


def _or(value: object, other: str) -> str:
    return other if value is None else str(value)


def _clean(rows: Sequence[str]) -> str:
    lines = ("".join(c if c.isprintable() else "?" for c in row) for row in rows)
    return redact.text("\n".join(lines)) + "\n"
