"""The frame around every page of `runward serve`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runward.core import durations
from runward.ui import markup


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around a page."""

    title: str
    at: float
    """When the state was looked at, in seconds since the epoch."""
    place: str
    """The state directory that is shown."""
    depth: int = 0
    """How many folders deep the page's address is: links are relative, so that a proxy may add a prefix."""
    refreshes: bool = True


def page(frame: Frame, main: markup.Markup) -> str:
    """The whole document."""
    up = "../" * frame.depth
    at = durations.iso(frame.at)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{markup.text(frame.title)}</title>"
        f'<link rel="icon" type="image/svg+xml" href="{up}static/icon.svg">'
        f'<link rel="stylesheet" href="{up}static/serve.css">'
        f'<script src="{up}static/serve.js" defer></script>'
        '<noscript><meta http-equiv="refresh" content="15"></noscript>'
    )
    links = [markup.element("a", markup.text(word), href=f"{up}{path}" or "./") for word, path in _LINKS]
    shown = markup.element(
        "span", markup.join(markup.text("state of "), markup.say("time", _clock(at), datetime=at)), id="shown"
    )
    top = markup.element(
        "header",
        [markup.element("nav", links), shown, markup.say("p", "", id="alarm", role="alert", hidden="")],
    )
    foot = markup.say("footer", f"Runward reads {frame.place}; nothing can be changed from here.")
    data: Mapping[str, Any] = {"data_at": at, "data_live": "1" if frame.refreshes else None}
    body = markup.element("body", markup.join(top, markup.element("main", main), foot), **data)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>{body}</html>\n'


_LINKS = (("Runs", ""), ("This box", "box"))


def _clock(at: str | None) -> str:
    """An instant as people read it; always UTC, as everywhere else."""
    return f"{at[:10]} {at[11:19]} UTC" if at else "-"
