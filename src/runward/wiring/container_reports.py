"""`diagnose docker:...`: one container or all that died, as text, JSON, classic sections, and saved files."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runward.app import container_post_mortem as post_mortem
from runward.core import durations
from runward.ui import classic_container, markup, text_container
from runward.wiring import docker, saved_reports


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for."""

    target: str
    """NAME, ID or `latest`, without `docker:`."""
    all_dead: bool = False
    since_s: float = 3600.0
    form: str = "text"
    """`text`, `json`, `classic`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes to stdout, what to stderr, and the reports themselves."""

    out: str
    said: tuple[str, ...]
    reports: tuple[post_mortem.PostMortem, ...]


def answer(asked: Asked) -> Answer:
    """Examine and render. Raises NotFound, Unreachable, UsageError."""
    engine = docker.Docker()
    try:
        if asked.all_dead:
            seen = engine.dead_since(time.time() - asked.since_s)
        else:
            seen = [engine.named(asked.target)]
        reports = engine.examine_all(seen)
    finally:
        engine.close()
    span = durations.format_duration(asked.since_s)
    said = () if reports else (f"no container ended with an error in the last {span}",)
    return Answer(_render(reports, asked), said, reports)


def _render(reports: Sequence[post_mortem.PostMortem], asked: Asked) -> str:
    values = [post_mortem.to_json(report) for report in reports]
    if asked.form == "json":
        whole: object = {"schema_version": 1, "containers": values} if asked.all_dead else values[0]
        return json.dumps(whole, indent=2) + "\n"
    if asked.form == "classic":
        return "\n".join(classic_container.render(value) for value in values)
    return text_container.render_all(values)


def save(report: post_mortem.PostMortem, folder: str, said: Callable[[str], None]) -> None:
    """Write the report's three forms and say each path. Raises UsageError."""
    value = post_mortem.to_json(report)
    saved = saved_reports.Report(
        report.container.name,
        str(report.diagnosis.verdict.cause),
        text_container.render(value),
        page([report]),
        value,
    )
    saved_reports.write(saved, folder, report.asked_at, said)


def page(reports: Sequence[post_mortem.PostMortem]) -> str:
    """The reports as one self-contained page."""
    values = [post_mortem.to_json(report) for report in reports]
    title = markup.escaped(
        ", ".join(f"{one.container.name}: {one.diagnosis.verdict.cause}" for one in reports)
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font:14px/1.5 monospace;margin:2em;max-width:120ch}pre{white-space:pre-wrap}</style>"
        f"<h1>{title}</h1><pre>{markup.escaped(text_container.render_all(values))}</pre></html>\n"
    )
