"""`top --box`: looks at the box again and again and hands out pages."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from runward.probes import kernel_log
from runward.runners import local
from runward.ui import view_box
from runward.wiring import box

_FIRST_SPAN_S = 0.3


@dataclass
class Pages:
    """Pages of this box; the kernel is asked for its lines only when there is a new kill."""

    every_s: float = 5.0
    disks: tuple[str, ...] = ("/",)
    classic: bool = False

    def __post_init__(self) -> None:
        self._looker = box.Looker(box.What(self.disks, processes=0, daemon_errors=False, often=True))
        self._lines: tuple[str, ...] = ()
        self._asked = False

    def one(self) -> view_box.Page:
        """The page as of now."""
        snapshot = self._looker.look()
        if snapshot.oom_total and (snapshot.oom_new or not self._asked):
            self._asked = True
            log = kernel_log.read(local.Local())
            self._lines = tuple(line.text for line in log.lines if "killed process" in line.text.lower())
        return view_box.page(snapshot, self._lines, classic=self.classic)

    def stream(self, over: threading.Event) -> Iterator[view_box.Page]:
        """Pages at the period until `over`; the first one knows shares of the CPU too."""
        self._looker.look()
        over.wait(_FIRST_SPAN_S)
        while not over.is_set():
            yield self.one()
            over.wait(self.every_s)

    def close(self) -> None:
        """Give the engine's connection back."""
        self._looker.close()
