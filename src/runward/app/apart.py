"""Many large logs read by several processes at once, into the same casebook as one process would fill.

Each child reads its share of the files and writes down what it would have told the casebook; the parent takes these
notes in the order of the files. Nothing but plain values goes through the pipes, and children wait when they are full.
"""

import fcntl
import functools
import gc
import marshal
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from runward.app import diagnose, spans
from runward.core import casebook, failures, signals, tracebacks, voices

_PIPE = 1 << 20
_ROWS = 256
"""Notes that go through the pipe together."""
_SIGNAL = tuple(signals.Signal._fields)
_TRACEBACK = tracebacks.Traceback._fields


def reader(workers: int) -> Callable[..., casebook.Casebook]:
    """`diagnose.read` with so many processes for the logs that are files."""

    def read(
        engine: diagnose.Engine, logs: Sequence[diagnose.Log], window: spans.Window | None = None
    ) -> casebook.Casebook:
        files = [log for log in logs if log.notes is not None]
        if workers < 2 or len(files) < 2:
            return diagnose.read(engine, logs, window)
        crew: list[_Child] = []
        try:
            for first in range(min(workers, len(files))):
                work = functools.partial(_work, engine, files[first::workers], window)
                crew.append(_Child(work, [child.pipe for child in crew]))
            return _together(engine, logs, window, crew)
        finally:
            for child in crew:
                child.end()

    return read


def _together(
    engine: diagnose.Engine,
    logs: Sequence[diagnose.Log],
    window: spans.Window | None,
    crew: "Sequence[_Child]",
) -> casebook.Casebook:
    book = casebook.Casebook(engine.ruleset)
    turn = 0
    for log in logs:
        if log.notes is None:
            diagnose.read_one(engine, log, book, window)
            continue
        _retold(crew[turn % len(crew)], log, book)
        turn += 1
    return book


class _Child:
    """A process that reads some logs, one after another."""

    def __init__(self, work: Callable[[int], None], others: Sequence[int]) -> None:
        """`work` notes into a descriptor; `others` are those that earlier children are read from."""
        back, out = os.pipe2(os.O_CLOEXEC)
        fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, _PIPE)
        gc.freeze()  # what is there already is not touched by the child, and stays shared
        self._pid = os.fork()
        if self._pid == 0:
            os.close(back)
            for other in others:  # a pipe that another child holds open would never break for its writer
                os.close(other)
            _lived(work, out)
        os.close(out)
        self.pipe = back
        self._notes = open(back, "rb")  # noqa: SIM115 -- closed by `end`

    def notes(self) -> Iterator[Any]:
        """What the child notes, until it says that a log is finished. Raises EOFError when it has died."""
        while True:
            size = self._notes.read(4)
            if len(size) < 4:
                raise EOFError
            rows = marshal.loads(self._notes.read(struct.unpack("<I", size)[0]))  # noqa: S302 -- our own child wrote it
            yield from rows
            if rows and rows[-1][0] == "end":
                return

    def end(self) -> None:
        """Nothing more is wanted of it: a child that still writes ends by itself."""
        self._notes.close()
        os.waitpid(self._pid, 0)


def _work(
    engine: diagnose.Engine, share: Sequence[diagnose.Log], window: spans.Window | None, out: int
) -> None:
    for log in share:
        teller = _Teller(out, casebook.Casebook(engine.ruleset))
        diagnose.read_one(engine, log, teller, window)
        teller.end(log.notes or [])


def _lived(work: Callable[[int], None], out: int) -> NoReturn:
    """The whole life of a child."""
    try:
        work(out)
    except BaseException:  # noqa: BLE001 -- the border of a child: the parent sees that its notes stop
        os._exit(1)
    os._exit(0)


@dataclass(slots=True)
class _Teller:
    """Stands for the casebook in a child."""

    out: int
    book: casebook.Casebook
    """Keeps the edges of the text only."""
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def note_chunk(self, source: signals.Source, data: bytes) -> None:
        """As `Casebook.note_chunk`."""
        self.book.note_chunk(source, data)

    def add(self, signal: signals.Signal) -> None:
        """As `Casebook.add`."""
        self._tell("signal", *(_plain(getattr(signal, name)) for name in _SIGNAL))

    def add_traceback(self, found: tracebacks.Traceback) -> None:
        """As `Casebook.add_traceback`."""
        self._tell("traceback", *(_plain(getattr(found, name)) for name in _TRACEBACK))

    def settle(self) -> None:
        """As `Casebook.settle`."""
        self._tell("settle")

    def end(self, notes: list[str]) -> None:
        """The log is finished."""
        for edges in self.book.edges.values():
            self._tell("edges", edges.head, edges.tail, edges.size, edges.node)
        self._tell("end", *notes)
        self._flush()

    def _tell(self, *row: Any) -> None:
        self.rows.append(row)
        if len(self.rows) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        data = marshal.dumps(self.rows)
        view = memoryview(struct.pack("<I", len(data)) + data)
        while view:
            view = view[os.write(self.out, view) :]
        self.rows.clear()


def _plain(value: Any) -> Any:
    """Words of an enumeration as text, mappings as dicts, voices as tuples: what `marshal` takes."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tuple):
        return tuple(value)
    return dict(value) if hasattr(value, "keys") else value


def _retold(child: _Child, log: diagnose.Log, book: casebook.Casebook) -> None:
    """Tell the casebook what a child has noted about one log."""
    notes = log.notes if log.notes is not None else []
    try:
        for kind, *row in child.notes():
            match kind:
                case "signal":
                    book.add(_signal(row))
                case "traceback":
                    found = tracebacks.Traceback(*row)
                    book.add_traceback(found._replace(voice=voices.Voice(*found.voice)))
                case "settle":
                    book.settle()
                case "edges":
                    if len(book.edges) < casebook.MAX_FILES:
                        book.edges[log.source.file] = casebook.Edges(*row)
                        book.file_ranks.name(log.source)
                case _:
                    notes += row
    except EOFError:
        notes.append("reading stopped: the process that read it ended")


def _signal(row: list[Any]) -> signals.Signal:
    known = dict(zip(_SIGNAL, row, strict=True))
    known["role"] = signals.Role(known["role"])
    known["cause"] = failures.Cause(known["cause"]) if known["cause"] else None
    known["voice"] = voices.Voice(*known["voice"])
    return signals.Signal(**known)
