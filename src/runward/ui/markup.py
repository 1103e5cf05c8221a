"""What all pages are made of: text that is escaped, elements and tables.

A string becomes markup only here; everything else hands in plain text.
"""

import html
from collections.abc import Iterable, Sequence
from typing import NewType

from runward.core import redact

Markup = NewType("Markup", str)
"""Text that is safe to stand in a page as it is."""
_LONGEST = 2_000
"""Characters of one text that are shown."""


def escaped(raw: str) -> Markup:
    """The whole of a text that was masked where it was made."""
    return Markup(html.escape(raw, quote=True))


def text(raw: object) -> Markup:
    """Masked, bounded and escaped; nothing for None."""
    if raw is None:
        return Markup("")
    said = str(raw)
    said = said if len(said) <= _LONGEST else said[:_LONGEST] + " ..."
    return escaped(redact.text(said))


def element(tag: str, inside: Iterable[Markup] | Markup, **attributes: object) -> Markup:
    """One element; `class_` is written class, an attribute of None is left out."""
    names = {name: value for name, value in attributes.items() if value is not None}
    words = "".join(f' {name.rstrip("_").replace("_", "-")}="{escaped(str(v))}"' for name, v in names.items())
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
