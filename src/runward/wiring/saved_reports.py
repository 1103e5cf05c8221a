"""`diagnose --save`: a report as text, page and JSON in a folder, and in the summary of a CI job where there is one."""

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runward.core import errors


@dataclass(frozen=True, slots=True)
class Report:
    """One report in its three forms."""

    name: str
    """Of the container, run or log."""
    cause: str
    text: str
    page: str
    value: Mapping[str, object]


def write(report: Report, folder: str, at: float, said: Callable[[str], None]) -> None:
    """Write `diagnosis-<name>-<time>.{txt,html,json}` and say each path. Raises UsageError.

    A summary that cannot be added to is told when the files lie there.
    """
    name = re.sub(r"[^\w.-]+", "-", report.name).strip("-.")[:80] or "report"
    stem = os.path.join(folder, f"diagnosis-{name}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(at))}")
    forms = {".txt": report.text, ".html": report.page, ".json": json.dumps(report.value, indent=2) + "\n"}
    try:
        os.makedirs(folder, exist_ok=True)
        for ending, content in forms.items():
            with open(stem + ending, "w", encoding="utf-8", errors="replace") as file:
                file.write(content)
    except OSError as error:
        raise errors.UsageError(errors.Problem(f"cannot save: {error.strerror}", where=stem)) from error
    for ending in forms:
        said(stem + ending)
    _summarize(report)


def _summarize(report: Report) -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write(f"### {report.name}: {report.cause}\n\n")
            file.write("".join(f"    {line}\n" for line in report.text.splitlines()) + "\n")
    except OSError as error:
        raise errors.UsageError(
            errors.Problem(f"cannot be added to: {error.strerror}", where=f"$GITHUB_STEP_SUMMARY ({path})")
        ) from error
