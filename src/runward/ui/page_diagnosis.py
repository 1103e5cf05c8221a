"""A diagnosis as one self-contained page to attach to a ticket: no script, nothing loaded from elsewhere."""

import html
import json
from collections.abc import Iterable

from runward.core import failures
from runward.ui import text_diagnosis

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
    body = [
        f"<h1>{_text(target)}</h1>",
        "<p>" + "".join(f'<span class="tag">{_text(tag)}</span>' for tag in tags if tag) + "</p>",
        f"<p>{_text(verdict.summary)}</p>",
        _list("What to do", (a.do + (f" ({a.why})" if a.why else "") for a in found.advice)),
        _evidence("Evidence", found.evidence),
        _evidence("Against it", found.counter_evidence),
        _evidence("Echoes", found.echoes),
        _list("Open", found.notes),
        f"<details><summary>JSON</summary><pre>{_text(json.dumps(found.to_json(target), indent=1))}</pre></details>",
    ]
    head = f'<meta charset="utf-8"><title>{_text(target)}: {verdict.cause}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _text(raw: str) -> str:
    return html.escape(raw, quote=True)


def _list(title: str, texts: Iterable[str]) -> str:
    rows = "".join(f"<li>{_text(text)}</li>" for text in texts)
    return f"<h2>{title}</h2><ul>{rows}</ul>" if rows else ""


def _evidence(title: str, items: Iterable[failures.Evidence]) -> str:
    rows = "".join(
        f'<div class="where">{_text(text_diagnosis.line(item).partition("  ")[0])}'
        f"{_text(f' at {item.at}' if item.at else '')}{_text(f' [{item.rule}]' if item.rule else '')}</div>"
        f"<pre>{_text(item.text.strip())}</pre>"
        for item in items
    )
    return f"<h2>{title}</h2>{rows}" if rows else ""
