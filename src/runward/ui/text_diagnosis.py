"""A diagnosis as text for a terminal."""

from collections.abc import Iterator, Mapping

from runward.core import failures

_WIDTH = 160


def plain(text: str) -> str:
    """`text` with nothing that a terminal obeys: a log may hold anything."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in text)


def lines(found: failures.Diagnosis, target: str) -> Iterator[str]:
    """The verdict first, then what to do, then the proof."""
    return map(plain, _lines(found, target))


def _lines(found: failures.Diagnosis, target: str) -> Iterator[str]:
    verdict = found.verdict
    who = f", rank {verdict.rank}" if verdict.rank is not None else ""
    named = (verdict.node or "").removeprefix("node ")
    node = f", node {named}" if named else ""
    yield f"{target}: {verdict.cause} ({verdict.certainty}{who}{node}) -> {verdict.action}"
    yield f"  {verdict.summary}"
    span = found.progress
    if span.last_step is not None:
        total = f" of {span.total}" if span.total else ""
        yield f"  {span.unit or 'step'} {span.first_step} to {span.last_step}{total}"
    yield from _block("what to do", [a.do + (f" ({a.why})" if a.why else "") for a in found.advice])
    yield from _block("evidence", map(line, found.evidence))
    yield from _block("against it", map(line, found.counter_evidence))
    yield from _block("echoes", map(line, found.echoes[:3]))
    yield from _block("open", found.notes)


def _block(title: str, texts: object) -> Iterator[str]:
    rows = [str(text) for text in texts]  # type: ignore[attr-defined]
    if rows:
        yield f"  {title}:"
        yield from (f"    {row if len(row) <= _WIDTH else row[: _WIDTH - 1] + '…'}" for row in rows)


def line(item: failures.Evidence) -> str:
    """`file:line rank 3 text`."""
    place = f"{item.file}:{item.line}" if item.file and item.line else (item.file or item.source)
    who = f" rank {item.rank}" if item.rank is not None else ""
    return f"{place}{who}  {item.text.strip()}"


def considered(rows: list[Mapping[str, object]]) -> Iterator[str]:
    """What was weighed: `--explain`."""
    yield "  considered (strongest first):"
    for row in rows:
        yield plain(
            f"    {row['weight']:>3} {row['cause']:<22} {row['rule']}"
            + (f" rank {row['rank']}" if row["rank"] is not None else "")
            + f"  [{row['why']}]  {str(row['text']).strip()[:90]}"
        )
