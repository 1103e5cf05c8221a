"""A container's output: both streams as one, across restarts of the container and of the engine."""

import collections
import http.client
import itertools
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from runward import ports
from runward.backends import intake
from runward.backends.docker import client, inspected

_LAST_S = 10.0


@dataclass(frozen=True, slots=True)
class Piece:
    """One message of the log: a line, or a part of a line over 16 KiB."""

    stamp: bytes
    """The engine's time of it as text, sorted as time is; empty when it gave none."""
    data: bytes
    stderr: bool = False


def pieces(response: http.client.HTTPResponse, *, tty: bool) -> Iterator[list[Piece]]:
    """The messages of an open answer to `request`, as many as came at once."""
    waiting = bytearray()
    while data := response.read1(1 << 16):
        waiting += data
        found, used = _lines(waiting) if tty else _frames(waiting)
        del waiting[:used]
        if found:
            yield found
    if tty and waiting:
        yield [_piece(bytes(waiting), stderr=False)]


def _frames(waiting: bytearray) -> tuple[list[Piece], int]:
    """Whole frames (kind, three zeros, length, text), and the bytes that they take."""
    found, at = [], 0
    while len(waiting) - at >= 8:
        end = at + 8 + int.from_bytes(waiting[at + 4 : at + 8], "big")
        if end > len(waiting):
            break
        found.append(_piece(bytes(waiting[at + 8 : end]), stderr=waiting[at] == 2))
        at = end
    return found, at


def _lines(waiting: bytearray) -> tuple[list[Piece], int]:
    end = waiting.rfind(b"\n") + 1
    return [_piece(line, stderr=False) for line in bytes(waiting[:end]).splitlines(keepends=True)], end


def _piece(data: bytes, *, stderr: bool) -> Piece:
    """A message apart from its time: `2026-01-31T08:00:00.000000001Z text`."""
    end = data.find(b" ", 19, 40)
    if end > 0 and data[10:11] == b"T" and data[4:5] == b"-":
        return Piece(data[:end], data[end + 1 :], stderr)
    return Piece(b"", data, stderr)


def request(container: str, **query: object) -> client.Request:
    """The question for a container's log."""
    full = {"stdout": True, "stderr": True, "timestamps": True, **query}
    return client.Request("GET", f"/containers/{container}/logs", full)


def tail(engine: client.Engine, container: str, lines: int, limit: int, *, tty: bool) -> bytes:
    """The last lines of both streams, at most `limit` bytes of them.

    Raises EngineError when the log driver cannot be read, ContactLost.
    """
    kept: collections.deque[bytes] = collections.deque()
    size = 0
    with engine.stream(request(container, tail=lines)) as response:
        for piece in itertools.chain.from_iterable(pieces(response, tty=tty)):
            kept.append(piece.data)
            size = _shorten(kept, size + len(piece.data), limit)
    return b"".join(kept)[-limit:]


def tail_of_file(path: str, lines: int, limit: int) -> bytes | None:
    """The same from the file of the driver json-file; None where it cannot be read or does not hold enough.

    The engine would look through it for us, slower by the time that it needs to find and send the lines.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = file.seek(max(0, size - limit * 2))
            data = file.read(limit * 2)
    except OSError:
        return None
    rows = data.rsplit(b"\n", lines + 1)[:-1]
    rows = rows[1:] if begin or len(rows) > lines else rows
    if begin == 0 and len(rows) < lines and os.path.exists(f"{path}.1"):
        return None  # the older lines are in files that were put aside
    texts = _texts(rows[-lines:])
    if texts is None or (data and not texts):
        return None
    kept = collections.deque(texts)
    _shorten(kept, sum(map(len, kept)), limit)
    return b"".join(kept)[-limit:]


def _shorten(kept: collections.deque[bytes], size: int, limit: int) -> int:
    """Leave out the oldest until the rest is at most `limit` bytes, or one alone; the new size."""
    while size > limit and len(kept) > 1:
        size -= len(kept.popleft())
    return size


def _texts(rows: Sequence[bytes]) -> list[bytes] | None:
    """What the rows say, each an object of the driver; None when one is none of its own."""
    try:
        # All in one go: row by row the decoder is called so often that the calls take most of the time.
        said = _words(rows)
        if said is not None:
            texts = json.loads(b'["' + b'","'.join(said) + b'"]') if said else []
        else:
            texts = [value["log"] for value in json.loads(b"[" + b",".join(rows) + b"]")]
        return [text.encode("utf-8", "surrogatepass") for text in texts]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _words(rows: Sequence[bytes]) -> list[bytes] | None:
    """The text of each row as the driver writes it, still in JSON's own escapes; None where one is written otherwise.

    A bare quote ends the text, so that the mark behind it is never a part of it.
    """
    found = []
    for row in rows:
        end = row.find(_BEHIND)
        if end < 0 or not row.startswith(_BEFORE) or not row.endswith(b"}"):
            return None
        found.append(row[len(_BEFORE) : end])
    return found


_BEFORE, _BEHIND = b'{"log":"', b'","stream":"'


class Follower:
    """A LogStream over the engine's follow mode. One reader thread; it waits while its room is full."""

    rank: int | None = None

    def __init__(self, engine: client.Engine, container: str, name: str, alive: Callable[[], bool]) -> None:
        """`alive`: whether the container may still write."""
        self.name = name
        self._engine = engine
        self._container = container
        self._alive = alive
        self._intake = intake.Intake()
        self._last = b""
        self._repeats = 0
        self._thread: threading.Thread | None = None
        self._complete = False
        self._reading = False
        self._over = False

    def read_new(self, budget: int) -> Sequence[ports.Chunk]:
        """See `ports.LogStream.read_new`."""
        self._ensure_reader()
        if self._over:
            self._wait_for_the_last()
        return self._intake.take(budget)

    def ended(self) -> None:
        """The container is over: a look waits for what is still on its way."""
        self._over = True

    def _wait_for_the_last(self) -> None:
        deadline = time.monotonic() + _LAST_S
        while time.monotonic() < deadline:
            ready = self._intake.wait(lambda: not self._reading, 1.0)
            if ready or (self._complete and not self._reading):
                return
            self._ensure_reader()

    def close(self) -> None:
        """Stop reading; the thread ends with its next message."""
        self._intake.close()

    def _ensure_reader(self) -> None:
        """An answer ends with its container or with its engine; only one that began after the container's
        end is known to be complete.
        """
        if self._reading:
            return
        alive = self._alive()
        if self._complete and not alive:
            return
        self._complete, self._reading = not alive, True
        self._thread = threading.Thread(target=self._follow, name=f"log of {self.name}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            self._read()
        except ports.ContactLost as lost:
            self._stopped(lost)
        except client.EngineError as refused:
            self._stopped(ports.ContactLost(f"log of {self.name}: {refused.message}"))
        except Exception as error:  # noqa: BLE001 -- the border of a thread that we started
            self._stopped(ports.ContactLost(f"log of {self.name}: {error!r}"))
        else:
            self._stopped(None)

    def _stopped(self, lost: ports.ContactLost | None) -> None:
        self._complete = self._complete and lost is None
        self._reading = False
        self._intake.tell(lost)

    def _read(self) -> None:
        raw = self._engine.json(client.Request("GET", f"/containers/{self._container}/json"))
        tty = inspected.container(raw).tty
        last = self._last
        repeats = _Repeats(last, self._repeats)
        query = {"follow": True, **({"since": _seconds(last)} if last else {})}
        asked = request(self._container, **query)
        # A quiet log is no fault: this long time-out only ends a connection that died without a word.
        quiet = client.Request(asked.method, asked.path, asked.query, deadline_s=3600.0)
        with self._engine.stream(quiet) as response:
            for batch in pieces(response, tty=tty):
                if not self._keep([piece for piece in batch if not repeats.known(piece)]):
                    return

    def _keep(self, batch: Sequence[Piece]) -> bool:
        for piece in batch:
            self._repeats = self._repeats + 1 if piece.stamp == self._last else 1
            self._last = piece.stamp or self._last
        return self._intake.put(b"".join(piece.data for piece in batch))


class _Repeats:
    """A reconnect brings the messages of the last instant again: they are told apart by their count."""

    def __init__(self, last: bytes, count: int) -> None:
        self._last, self._left = last, count

    def known(self, piece: Piece) -> bool:
        if not self._last or not piece.stamp or piece.stamp > self._last:
            return False
        if piece.stamp == self._last:
            self._left -= 1
            return self._left >= 0
        return True


def _seconds(stamp: bytes) -> str:
    """The engine's `since`: seconds and nanoseconds, without the loss that a float would bring."""
    text = stamp.decode("ascii")
    whole = inspected.instant(text.partition(".")[0] + "Z" if "." in text else text)
    fraction = re.search(r"\.(\d+)", text)
    return f"{int(whole or 0)}.{(fraction[1] if fraction else '0'):<09}"
