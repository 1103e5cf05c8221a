"""A log that a requeued job goes on writing: only what belongs to the attempt is read.

When Slurm ends a job to queue it again, it writes one line of its own into the log, with the reason; the attempt
after restart n begins behind the n-th of them. A line without reason is a signal, which may have been an early one.
"""

import re
from collections.abc import Callable, Sequence

from runward import ports

_MARK = re.compile(
    rb"^slurmstepd[^\n]{0,200}\*\*\* JOB \d+ ON [^\n]{1,400}DUE TO[^\n]{0,200}\*\*\*\n",
    re.MULTILINE,
)
_BLOCK = 1 << 20
_OVERLAP = 1024


def begin_of(path: str, restarts: int) -> int:
    """Where the attempt after so many restarts begins; 0 where the log holds no earlier attempt."""
    seen, end, offset, carried = 0, 0, 0, b""
    try:
        with open(path, "rb") as file:
            while seen < restarts and (block := file.read(_BLOCK)):
                text = carried + block
                base = offset - len(carried)
                for mark in _MARK.finditer(text):
                    if base + mark.end() > end and seen < restarts:
                        seen, end = seen + 1, base + mark.end()
                offset += len(block)
                carried = text[-_OVERLAP:]
    except OSError:
        return 0
    return end


class After:
    """`ports.LogStream` without what stands before `begin` in the log as it was."""

    def __init__(self, stream: ports.LogStream, begin: Callable[[], int]) -> None:
        self._stream, self._find = stream, begin
        self._begin: int | None = None

    @property
    def name(self) -> str:
        """The path."""
        return self._stream.name

    @property
    def rank(self) -> int | None:
        """That of the log."""
        return self._stream.rank

    def read_new(self, budget: int) -> Sequence[ports.Chunk]:
        """See `ports.LogStream.read_new`."""
        if self._begin is None:
            self._begin = self._find()
        kept: list[ports.Chunk] = []
        while not kept:
            chunks = self._stream.read_new(budget)
            if not chunks:
                break
            for chunk in chunks:
                if chunk.restarted:
                    self._begin = 0
                skip = max(0, self._begin - chunk.offset)
                if skip < len(chunk.data):
                    kept.append(
                        ports.Chunk(chunk.offset + skip, chunk.data[skip:], chunk.restarted, chunk.bulk)
                    )
        return kept
