"""What all pages are made of: text that is masked and escaped, tables, and the frame around them.

A string becomes markup only here; everything else hands in plain text.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NewType

from runward.core import durations, redact

Markup = NewType("Markup", str)
"""Text that is safe to stand in a page as it is."""
_LONGEST = 2_000
"""Characters of one text that are shown."""


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


def text(raw: object) -> Markup:
    """Masked, bounded and escaped; nothing for None."""
    if raw is None:
        return Markup("")
    said = str(raw)
    said = said if len(said) <= _LONGEST else said[:_LONGEST] + " ..."
    return Markup(html.escape(redact.text(said), quote=True))


def element(tag: str, inside: Iterable[Markup] | Markup, **attributes: object) -> Markup:
    """One element; `class_` is written class, an attribute of None is left out."""
    names = {name: value for name, value in attributes.items() if value is not None}
    words = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(v))}"' for name, v in names.items()
    )
    body = inside if isinstance(inside, str) else "".join(inside)
    return Markup(f"<{tag}{words}>{body}</{tag}>")


def say(tag: str, raw: object, **attributes: object) -> Markup:
    """One element with plain text in it."""
    return element(tag, text(raw), **attributes)


def join(*parts: Markup) -> Markup:
    """One after another."""
    return Markup("".join(parts))


def table(head: Sequence[str], rows: Iterable[Markup], **attributes: object) -> Markup:
    """A table that may be wider than the window; `rows` are elements `tr`."""
    heading = element("tr", [say("th", word, scope="col") for word in head])
    inside = element("table", join(element("thead", heading), element("tbody", list(rows))), **attributes)
    return element("div", inside, class_="wide")


def lines(texts: Iterable[str]) -> Markup:
    """A line each; every one is bounded by itself."""
    return Markup("\n".join(text(line) for line in texts))


def listed(texts: Sequence[str], **attributes: object) -> Markup:
    """A list of sentences; nothing where there are none."""
    return element("ul", [say("li", one) for one in texts], **attributes) if texts else Markup("")


def page(frame: Frame, main: Markup) -> str:
    """The whole document."""
    up = "../" * frame.depth
    at = durations.iso(frame.at)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{text(frame.title)}</title>"
        f'<link rel="icon" type="image/svg+xml" href="{up}static/icon.svg">'
        f'<link rel="stylesheet" href="{up}static/serve.css">'
        f'<script src="{up}static/serve.js" defer></script>'
        '<noscript><meta http-equiv="refresh" content="15"></noscript>'
    )
    links = [element("a", text(word), href=f"{up}{path}" or "./") for word, path in _LINKS]
    shown = element("span", join(text("state of "), say("time", _clock(at), datetime=at)), id="shown")
    top = element("header", [element("nav", links), shown, say("p", "", id="alarm", role="alert", hidden="")])
    foot = say("footer", f"Runward reads {frame.place}; nothing can be changed from here.")
    data: Mapping[str, Any] = {"data_at": at, "data_live": "1" if frame.refreshes else None}
    body = element("body", join(top, element("main", main), foot), **data)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>{body}</html>\n'


_LINKS = (("Runs", ""), ("This box", "box"))


def _clock(at: str | None) -> str:
    """An instant as people read it; always UTC, as everywhere else."""
    return f"{at[:10]} {at[11:19]} UTC" if at else "-"
