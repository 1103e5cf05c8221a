"""The memory of bad nodes on disk: one JSON object a line, appended under a lock, rewritten when it forgets."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence

from runward.core import failures, nodes

_LIMIT = 4 << 20
_KEPT = 2000


class NodeMemory:
    """Marks in `<state>/nodes.jsonl`."""

    def __init__(self, state: str) -> None:
        self._path = os.path.join(state, "nodes.jsonl")

    def marks(self) -> Sequence[nodes.Mark]:
        """All marks that can be read; a damaged line is skipped."""
        with self._locked() as descriptor:
            return self._read(descriptor)

    def add(self, mark: nodes.Mark) -> None:
        """Remember one mark; the oldest are dropped beyond two thousand."""
        with self._locked() as descriptor:
            found = [*self._read(descriptor), mark]
            self._write(descriptor, found[-_KEPT:])

    def forgive(self, node: str, gpu: str | None = None) -> int:
        """Forget the marks of a node (or of one of its GPUs); returns how many there were."""
        with self._locked() as descriptor:
            found = self._read(descriptor)
            kept = [m for m in found if m.node != node or (gpu is not None and m.gpu != gpu)]
            if len(kept) != len(found):
                self._write(descriptor, kept)
            return len(found) - len(kept)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    @staticmethod
    def _read(descriptor: int) -> list[nodes.Mark]:
        found = []
        for line in os.pread(descriptor, _LIMIT, 0).splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                found.append(_from_json(json.loads(line)))
        return found

    @staticmethod
    def _write(descriptor: int, marks: Sequence[nodes.Mark]) -> None:
        """In place under the lock: a crash in between costs marks, which only propose."""
        data = b"".join(json.dumps(_to_json(mark)).encode() + b"\n" for mark in marks)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, data, 0)
        os.fsync(descriptor)


def _to_json(mark: nodes.Mark) -> dict[str, object]:
    return {
        "node": mark.node,
        "at": mark.at,
        "cause": str(mark.cause),
        "run": mark.run,
        "gpu": mark.gpu,
        "proven": mark.proven,
        "text": mark.text[:500],
    }


def _from_json(data: dict[str, object]) -> nodes.Mark:
    return nodes.Mark(
        node=str(data["node"]),
        at=float(str(data["at"])),
        cause=failures.Cause(str(data["cause"])),
        run=str(data["run"]),
        gpu=str(data["gpu"]) if data.get("gpu") else None,
        proven=bool(data.get("proven")),
        text=str(data.get("text", "")),
    )
