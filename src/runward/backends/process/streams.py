"""An attempt's output files as log streams; what was cut out of them before it was read is left out.

`cut` is read after the bytes: a read that began below it saw a hole, is dropped, and goes on at `cut`.
"""

import os
from collections.abc import Sequence

from runward import ports
from runward.keeper import layout


class Output:
    """One growing file that its keeper empties from the old end."""

    rank = None

    def __init__(self, folder: str, path: str) -> None:
        self._folder, self._path = folder, path
        self.name = path
        self._at = 0
        """Position in the file; `_base` of the stream is added for chunks."""
        self._base = 0
        self._restarted = False

    def read_new(self, budget: int) -> Sequence[ports.Chunk]:
        """See `ports.LogStream.read_new`."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ports.ContactLost(f"{self._path}: {error.strerror}") from error
        try:
            return self._read(fd, budget)
        except OSError as error:
            raise ports.ContactLost(f"{self._path}: {error.strerror}") from error
        finally:
            os.close(fd)

    def _read(self, fd: int, budget: int) -> Sequence[ports.Chunk]:
        if os.fstat(fd).st_size < self._at:
            self._at, self._restarted = 0, True
        began = self._at
        data = os.pread(fd, budget, began)
        if not data:
            return ()
        head, cut = self._cut()
        if began < cut and began + len(data) > head:
            if began < head:
                data = data[: head - began]
            else:
                self._at = cut
                return self._read(fd, budget) if os.fstat(fd).st_size > cut else ()
        if not data:
            return ()
        self._at = began + len(data)
        restarted, self._restarted = self._restarted, False
        return (ports.Chunk(self._base + began, data, restarted),)

    def _cut(self) -> tuple[int, int]:
        state = layout.read_json(os.path.join(self._folder, layout.LOG_STATE)) or {}
        files = state.get("files")
        for one in files if isinstance(files, list) else ():
            if one.get("name") == os.path.basename(self._path):
                return int(one["head"]), int(one["cut"])
        return 0, 0


def place(folder: str) -> str | None:
    """Where an attempt's output files are; None while its specification cannot be read."""
    spec = layout.read_spec(folder)
    if spec is None:
        return None
    log = spec.get("log")
    return str((log.get("dir") if isinstance(log, dict) else None) or folder)


def of(folder: str, log_dir: str | None = None) -> list[ports.LogStream]:
    """The output files of an attempt that exist by now."""
    within = log_dir or place(folder) or folder
    paths = [os.path.join(within, name) for name in (layout.OUTPUT, layout.OUTPUT_ERR)]
    return [Output(folder, path) for path in paths if os.path.exists(path)]
