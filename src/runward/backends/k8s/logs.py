"""A container's log as a stream: each look asks for what came since the last line's own time stamp."""

import datetime as dt
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runward import ports
from runward.backends import asking
from runward.backends.k8s import api

_STAMPED = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")
_FIRST_LIMIT, _MOST = 8 << 20, 64 << 20
TAIL_LINES = 200_000
EVERY_S = 1.5
_SOON_S, _LAST_S = 0.5, 90.0
"""How long an answer is waited for, from when it was asked for: of a living container, and of one that has ended."""
SILENT_EVERY_S = 120.0
"""A log that stays silent is asked for less and less often, down to this."""
_TOGETHER = asking.Turns(8)
"""So many logs are asked for at a time, whosever they are; last words are not kept waiting by those of the living."""


@dataclass(frozen=True, slots=True)
class Container:
    """Whose log it is."""

    namespace: str
    pod: str
    container: str | None = None

    @property
    def path(self) -> str:
        """The path of its log."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/log"

    def query(self, **more: str) -> dict[str, str]:
        """The query for it."""
        return {**({"container": self.container} if self.container else {}), **more}


def whole(transport: api.Transport, of: Container, *, previous: bool = False) -> bytes:
    """The end of a log, at most 200,000 lines and 64 MiB; empty when there is none. Raises ContactLost."""
    more = {"previous": "true"} if previous else {}
    query = of.query(tailLines=str(TAIL_LINES), **more)
    try:
        return transport.ask(api.Ask(of.path, query, deadline_s=60.0, cut=True))
    except api.Refused as refused:
        if refused.status == 403:
            raise ports.ContactLost(api.why(refused)) from refused
        return b""  # not started yet, no container before, or gone


@dataclass(frozen=True, slots=True)
class State:
    """How a container stands, as far as its log depends on it."""

    restarts: int
    over: bool
    """Whether it will not run again."""
    ended_before: str = ""
    """When the container before it ended, as the API says it."""


class PodLog:
    """See `ports.LogStream`. When the container was started anew, the rest of the one before comes first."""

    rank: int | None = None

    def __init__(
        self,
        transport: api.Transport,
        of: Container,
        state: Callable[[], State],
        together: Callable[[], None] = lambda: None,
    ) -> None:
        """`together` begins to ask for the logs of all pods of the job: none of them is waited for alone."""
        self.name = f"k8s:{of.namespace}/{of.pod}"
        self._transport, self._of, self._state = transport, of, state
        self._restarts: int | None = None
        self._together = together
        self._asking: asking.Asking[bytes] | None = None
        self._asked_at = float("-inf")
        self._every_s = EVERY_S
        self._finished = False
        self._offset = 0
        self._last = b""
        self._same = 0
        """Lines already taken that carry the stamp `_last`."""
        self._marks: deque[tuple[bytes, int]] = deque(maxlen=256)
        """`_last` and `_same` after each answer that brought something."""
        self._plain = 0
        self._limit = _FIRST_LIMIT
        self._pending = b""

    def read_new(self, budget: int) -> Sequence[ports.Chunk]:
        """See `ports.LogStream.read_new`."""
        if not self._pending:
            over = self._state().over
            if over:
                self._together()
            self.begin()
            self._take(over=over)
        data, self._pending = self._pending[:budget], self._pending[budget:]
        if not data:
            return []
        chunk = ports.Chunk(self._offset, data)
        self._offset += len(data)
        return [chunk]

    def begin(self) -> None:
        """Begin to ask for what came, in a thread: at most every 1.5 s while the container lives, and until nothing
        comes after its end.
        """
        if self._pending or self._finished:
            return
        state, now = self._state(), time.monotonic()
        if self._restarts is None:
            self._restarts = state.restarts
        if self._asking is None and (state.over or now - self._asked_at >= self._every_s):
            self._asking = asking.Asking("a pod's log", lambda: self._fetch(state, now), _TOGETHER)
        if self._asking is not None and state.over:
            self._asking.hurry()

    def _take(self, *, over: bool) -> None:
        """The answer, if it is there soon: a slow one is taken at a later look, but for the last words."""
        asked = self._asking
        if asked is None or not asked.ready(_LAST_S if over else asked.began + _SOON_S - time.monotonic()):
            return
        self._asking = None
        self._pending = asked.answer()

    def _fetch(self, state: State, now: float) -> bytes:
        self._asked_at = now
        if state.restarts != self._restarts:
            rest = self._before(state)
            self._restarts = state.restarts
            if rest:
                self._asked_at = float("-inf")
                return rest
        found = self._since(previous=False)
        self._finished = state.over and not found
        self._every_s = EVERY_S if found else min(SILENT_EVERY_S, self._every_s * 1.5)
        return found

    def _before(self, state: State) -> bytes:
        """The rest of the container before: from the last line on that was taken before its end, as some of the new
        one's lines may have been taken already.
        """
        end = state.ended_before.encode()[:19]
        kept = self._last, self._same
        self._last, self._same = next(
            ((stamp, same) for stamp, same in reversed(self._marks) if stamp[:19] <= end), (b"", 0)
        )
        rest = self._since(previous=True)
        if kept[0] > self._last:
            self._last, self._same = kept
        return rest

    def _since(self, *, previous: bool) -> bytes:
        more = {"timestamps": "true", "limitBytes": str(self._limit)}
        if self._last:
            more["sinceTime"] = self._last[:19].decode() + "Z"
        if previous:
            more["previous"] = "true"
        try:
            asked = api.Ask(self._of.path, self._of.query(**more), limit=self._limit + 1, cut=True)
            text = self._transport.ask(asked)
        except api.Refused as refused:
            if refused.status == 403:
                raise ports.ContactLost(api.why(refused)) from refused
            return b""
        return self._unseen(text)

    def _unseen(self, text: bytes) -> bytes:
        """Whole lines that were not taken before, without their stamps."""
        full = len(text) >= self._limit
        lines = text.splitlines(keepends=True)
        if lines and not _STAMPED.match(lines[0]):  # a server that gives no stamps: by position
            fresh, self._plain = text[self._plain :], max(self._plain, len(text))
            return fresh
        if lines and full and not lines[-1].endswith(b"\n"):
            lines.pop()
        taken, edge, before, again = list[bytes](), self._last, self._same, 0
        for line in lines:
            found = _STAMPED.match(line)
            stamp = _comparable(found) if found else self._last
            if found and edge and stamp <= edge:  # the edge of the answer before: that much of it was taken
                again += stamp == edge
                if stamp < edge or again <= before:
                    continue
            self._same = self._same + 1 if stamp == self._last else (1 if stamp > self._last else self._same)
            self._last = max(self._last, stamp)
            taken.append(line[found.end() :] if found else line)
        if taken:
            self._marks.append((self._last, self._same))
        return b"".join(taken) or self._stuck(full=full)

    def _stuck(self, *, full: bool) -> bytes:
        """A line longer than the limit: ask for more, and give it up beyond the last limit."""
        if not full:
            return b""
        if self._limit < _MOST:
            self._limit *= 2
            return self._since(previous=False)
        self._limit = _FIRST_LIMIT
        if self._last:
            self._last = _next_second(self._last)
            self._same = 0
        return b"[a line of more than 64 MiB is left out]\n"


def _comparable(found: re.Match[bytes]) -> bytes:
    """A stamp that sorts as text: nine digits, always."""
    return found[1] + b"." + (found[2] or b"").ljust(9, b"0")


def _next_second(stamp: bytes) -> bytes:
    at = dt.datetime.fromisoformat(stamp[:19].decode()) + dt.timedelta(seconds=1)
    return at.isoformat().encode() + b"." + b"0" * 9
