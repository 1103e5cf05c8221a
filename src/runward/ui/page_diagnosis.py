"""A diagnosis as one self-contained page to attach to a ticket: no script, nothing loaded from elsewhere."""

import json
from collections.abc import Iterable

from runward.core import failures
from runward.ui import markup, text_diagnosis

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.3rem;margin:0 0 .3rem}h2{font-size:1rem;margin:1.4rem 0 .3rem}
.tag{display:inline-block;border:1px solid #888;border-radius:.3rem;padding:0 .4rem;margin-right:.4rem}
pre{background:#f3f3f3;padding:.5rem;white-space:pre-wrap;overflow-wrap:anywhere;margin:.2rem 0}
.where{color:#555;font-size:.85em}li{margin:.2rem 0}
@media (prefers-color-scheme:dark){body{color:#ddd;background:#161616}pre{background:#222}.where{color:#aaa}}
"""


def page(found: failures.Diagnosis, target: str) -> str:
    """The whole page."""
    verdict = found.verdict
    tags = [str(word or "") for word in (verdict.cause, verdict.action, verdict.certainty, verdict.scope)]
    tags += [f"rank {verdict.rank}"] if verdict.rank is not None else []
    tags += [f"node {verdict.node}"] if verdict.node else []
    body = markup.join(
        _say("h1", target),
        markup.element("p", [_say("span", tag, class_="tag") for tag in tags if tag]),
        _say("p", verdict.summary),
        _list("What to do", (a.do + (f" ({a.why})" if a.why else "") for a in found.advice)),
        _evidence("Evidence", found.evidence),
        _evidence("Against it", found.counter_evidence),
        _evidence("Echoes", found.echoes),
        _list("Open", found.notes),
        markup.element(
            "details", [_say("summary", "JSON"), _say("pre", json.dumps(found.to_json(target), indent=1))]
        ),
    )
    title = _say("title", f"{target}: {verdict.cause}")
    head = f'<meta charset="utf-8">{title}<style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _say(tag: str, raw: str, **attributes: object) -> markup.Markup:
    """One element with the whole of a text: a diagnosis is masked and bounded where it is made."""
    return markup.element(tag, markup.escaped(raw), **attributes)


def _list(title: str, texts: Iterable[str]) -> markup.Markup:
    rows = [_say("li", text) for text in texts]
    return markup.join(_say("h2", title), markup.element("ul", rows)) if rows else markup.join()


def _evidence(title: str, items: Iterable[failures.Evidence]) -> markup.Markup:
    rows = [
        part
        for item in items
        for part in (_say("div", _where(item), class_="where"), _say("pre", item.text.strip()))
    ]
    return markup.join(_say("h2", title), *rows) if rows else markup.join()


def _where(item: failures.Evidence) -> str:
    place = text_diagnosis.line(item).partition("  ")[0]
    return place + (f" at {item.at}" if item.at else "") + (f" [{item.rule}]" if item.rule else "")
