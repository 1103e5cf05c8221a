"""`runward top`: dashboards in the terminal."""

import os
import shutil
import sys
import threading

import click

from runward.cli import amounts, printing
from runward.core import errors


@click.command()
@click.option("--box", is_flag=True, help="This machine: memory, GPUs, containers, disks, kills for memory.")
@click.option(
    "--every", default="5s", show_default=True, type=amounts.DURATION, help="Time between two looks."
)
@click.option("--once", is_flag=True, help="One look, then leave.")
@amounts.DISKS
@amounts.form("text", "classic", about="classic: as the well-known shell dashboard.")
@click.option("--ascii", "only_ascii", is_flag=True, help="No characters beyond ASCII.")
@click.option("--json", "as_json", is_flag=True, help="Pages as JSON, one a line.")
def top(
    box: bool, every: float, once: bool, disks: tuple[str, ...], form: str, only_ascii: bool, as_json: bool
) -> None:
    """Show what goes on, again and again."""
    if not box:
        raise errors.UsageError(
            errors.Problem(
                "which page?",
                next_step="runward top --box shows this machine; runward ps and serve the runs.",
            )
        )
    from runward.wiring import box_page

    pages = box_page.Pages(max(0.2, every), tuple(disks), form == "classic")
    try:
        _redraw(pages, once=once, classic=form == "classic", only_ascii=only_ascii, as_json=as_json)
    except KeyboardInterrupt:
        pass
    finally:
        pages.close()


def _redraw(pages: object, *, once: bool, classic: bool, only_ascii: bool, as_json: bool) -> None:
    import dataclasses

    from runward.ui import draw_box
    from runward.wiring import box_page

    assert isinstance(pages, box_page.Pages)  # noqa: S101 -- for the type checker: imported late
    tty, over = sys.stdout.isatty(), threading.Event()
    for page in pages.stream(over):
        if as_json:
            printing.as_line({"schema_version": 1, **dataclasses.asdict(page)})
        else:
            size = shutil.get_terminal_size((100, 40))
            height = size.lines - 1 if tty and not once else None
            colour = tty and not os.environ.get("NO_COLOR")
            style = draw_box.Style(colour, only_ascii or not _draws_boxes(), size.columns, height, classic)
            clear = "\033[H\033[2J" if tty and not once else ""
            click.echo(clear + draw_box.draw(page, style, pages.every_s), nl=False)
        if once:
            over.set()


def _draws_boxes() -> bool:
    """Whether the terminal's encoding has the characters of the page."""
    try:
        "─█🟢".encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return False
    return True
