"""The box page as lines of a terminal, with or without colours and beyond ASCII."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runward.ui import view_box

_CODES = {"good": "32", "warn": "33", "bad": "31"}
_SHORT = 8
"""Columns of words are not cut below so many characters."""

_DOTS = {"good": "🟢", "warn": "🟡", "bad": "🔴"}


@dataclass(frozen=True, slots=True)
class Style:
    """What the terminal can show."""

    colour: bool = True
    ascii: bool = False
    width: int = 100
    height: int | None = None
    """Lines that fit; None: all."""
    classic: bool = False


def draw(page: view_box.Page, style: Style, every_s: float) -> str:
    """The page as text; where it does not fit, the last line says how much is left out."""
    lines = [line[: _room(line, style)] for line in _lines(page, style, every_s)]
    if style.height is not None and len(lines) > style.height:
        left = len(lines) - style.height + 1
        more = f"... {left} more lines: make the window taller"[: style.width]
        lines = [*lines[: style.height - 1], more]
    return "\n".join(lines) + "\n"


def _room(line: str, style: Style) -> int:
    """Escape sequences take no place on the screen."""
    return style.width + (9 if "\033[" in line else 0)


def _lines(page: view_box.Page, style: Style, every_s: float) -> Iterator[str]:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(page.at))
    title = "GPU RUNNER DASHBOARD - " if style.classic else ""
    yield from _frame(f"{title}{page.host}  {stamp}", style)
    yield from _frame("SYSTEM MEMORY", style)
    if page.memory is None:
        yield "N/A"
    else:
        yield _bar(page.memory, style)
        yield page.memory.text
    yield page.machine
    for table in page.tables:
        yield from _frame(table.title, style) if table.title else ()
        yield from table.above
        yield from _table(table, style.width)
    if page.oom:
        yield from _frame(f"{'OOM' if style.ascii else '⚠️  OOM'} KILLER EVENTS: {page.oom[0]}", style)
        yield from page.oom[1:]
    shown = {table.empty for table in page.tables if not table.rows}
    yield from (f"not observable: {why}" for why in page.blind if why not in shown)
    yield f"Press Ctrl+C to exit | Refreshes every {every_s:g} seconds"
    yield "For a record: runward record | After a death: runward diagnose docker:latest"


def _frame(title: str, style: Style) -> tuple[str]:
    rule = "-" if style.ascii else "─"
    return (f"{rule * 2} {title} " + rule * max(0, style.width - len(title) - 4),)


def _bar(bar: view_box.Bar, style: Style) -> str:
    filled = min(50, bar.percent // 2)
    full, empty = ("#", ".") if style.ascii else ("█", "░")
    cells = full * filled + empty * (50 - filled)
    if style.colour:
        cells = f"\033[{_CODES[bar.colour]}m{cells}\033[0m"
    dot = bar.colour if style.ascii else _DOTS[bar.colour]
    return f"Usage: {dot} {bar.percent:3d}% [{cells}]"


def _table(table: view_box.Table, room: int) -> Sequence[str]:
    if not table.rows:
        return (table.empty,)
    rows = (table.head, *table.rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.head))]
    over = sum(widths) + 2 * (len(widths) - 1) - room
    while over > 0 and (wide := [column for column in table.words if widths[column] > _SHORT]):
        # Words are cut before figures: what a container uses is what the page is looked at for.
        widths[max(wide, key=lambda column: widths[column])] -= 1
        over -= 1
    return [
        "  ".join(f"{cell[:width]:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
