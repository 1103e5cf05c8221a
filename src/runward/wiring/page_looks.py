"""How `runward serve` looks: through the same functions as `ps`, `status`, `events` and `top --box`."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runward import __version__, ports
from runward.core import run
from runward.store import sqlite
from runward.ui import sight, view, view_box
from runward.ui.web import app
from runward.wiring import box_page, glancing, log_ends, looking, places

_BOX_EVERY_S = 2.0


def looks() -> app.Looks:
    """Ways to look at the state directory and at this box."""
    return app.Looks(
        rows=rows,
        status=looking.status,
        statuses=Standings().statuses,
        events=events,
        log_end=log_ends.end,
        box=_Box().page,
        now=time.time,
        place=places.state_dir(),
        version=__version__,
    )


def rows() -> Sequence[Mapping[str, Any]]:
    """The lines of `ps --json`. Raises NotFound where there is no state, StoreUnavailable."""
    looking.open_store().close()
    return glancing.rows()


def events(name: str) -> list[Mapping[str, Any]]:
    """The lines of `events --json`. Raises NotFound, StoreUnavailable."""
    return [view.event(body) for body in looking.history(name, follow=False)]


@dataclass
class Standings:
    """Runs as their journals say, kept between two looks: only what came since is read and folded.

    Runs that ended long ago are told by their lines of `ps`, and not read at all.
    """

    _kept: dict[ports.RunRow, tuple[int, run.RunState]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def statuses(self, ended_within_s: float) -> list[dict[str, Any]]:
        """`status --json` of each run that goes on or ended within so many seconds, without what the box was like."""
        store = looking.open_store()
        try:
            with self._lock:
                return self._look(store, time.time() - ended_within_s)
        finally:
            store.close()

    def _look(self, store: sqlite.SqliteStore, since: float) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        kept: dict[ports.RunRow, tuple[int, run.RunState]] = {}
        over = {row["run"] for row in glancing.rows() if row["state"] not in sight.LIVE}
        newest = store.newest()
        for row in store.runs():
            if row.name in over and newest.get(row.id, since) < since:
                continue
            before = self._kept.get(row, (0, run.RunState()))
            new = store.history(row.id, before[0])
            state = run.fold((event for _, event in new), before[1])
            kept[row] = (new[-1][0] if new else before[0], state)
            if state.ended is None or state.ended.at >= since:
                found.append(view.status(state, looking.look(store, row)))
        self._kept = kept
        return found


class _Box:
    """One looker for all who ask; a page of a moment ago is given again."""

    def __init__(self) -> None:
        self._pages: box_page.Pages | None = None
        self._lock = threading.Lock()
        self._last: tuple[float, view_box.Page] | None = None

    def page(self) -> view_box.Page:
        """The page as of now, or of the last seconds."""
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > _BOX_EVERY_S:
                self._last = (time.monotonic(), self._look())
            return self._last[1]

    def _look(self) -> view_box.Page:
        if self._pages is None:
            self._pages = box_page.Pages()
            return next(self._pages.stream(threading.Event()))
        return self._pages.one()
