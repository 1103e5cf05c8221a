"""Notices on their way: kept in a directory until delivered, sent by one thread that nobody waits for.

Putting a notice costs one small file. Each target is served in order and on its own clock, so a dead one delays
no other; what cannot be delivered in a day is dropped and counted.
"""

import contextlib
import hashlib
import json
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runward import ports

_DELIVERED = "delivered"
_IDS = 500


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the queue."""

    notices: int = 200
    """More than these, and the oldest is dropped."""
    keep_s: float = 86400.0
    first_delay_s: float = 5.0
    last_delay_s: float = 600.0
    idle_s: float = 60.0


@dataclass(slots=True)
class _Item:
    name: str
    notice: ports.Notice
    id: str
    born: float
    left: set[str]
    """Targets that do not have it yet."""


@dataclass(slots=True)
class _Line:
    """One target's state."""

    notifier: ports.Notifier
    failures: int = 0
    ready_at: float = 0.0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """How deliveries stand."""

    waiting: int
    delivered: int
    dropped: int
    problems: Mapping[str, str] = field(default_factory=dict)
    """The last failure of each target that fails now."""


class Queue:
    """Delivers notices to all targets, retried with back-off, across restarts of the watcher.

    `put` never raises and never waits for a target. `targets` maps a stable, harmless name (no secret in it: it
    is written to disk) to its notifier. `redact` masks secrets in every string that leaves.
    """

    def __init__(
        self,
        directory: str,
        targets: Mapping[str, ports.Notifier],
        *,
        redact: Callable[[str], str] = str,
        limits: Limits | None = None,
    ) -> None:
        self._directory = directory
        self._lines = {name: _Line(notifier) for name, notifier in targets.items()}
        self._redact = redact
        self._limits = limits or Limits()
        self._items: list[_Item] = []
        self._known: list[str] = []
        self._number = 0
        self._delivered = self._dropped = 0
        self._stopping = False
        self._changed = threading.Condition()
        self._load()
        self._thread = threading.Thread(target=self._serve, name="runward-notify", daemon=True)
        self._thread.start()

    def put(self, notice: ports.Notice, notice_id: str) -> None:
        """Take a notice. The same id again is ignored, also after it was delivered."""
        if not self._lines:
            return
        clean = _clean(notice, self._redact)
        with self._changed:
            if notice_id in self._known or any(item.id == notice_id for item in self._items):
                return
            self._number += 1
            item = _Item(_file_name(self._number, notice_id), clean, notice_id, time.time(), set(self._lines))
            self._items.append(item)
            self._keep(item)
            while len(self._items) > self._limits.notices:
                self._forget(self._items[0], delivered=False)
            self._changed.notify_all()

    def report(self) -> Report:
        """How deliveries stand now."""
        with self._changed:
            problems = {name: line.problem for name, line in self._lines.items() if line.problem}
            return Report(len(self._items), self._delivered, self._dropped, problems)

    def drain(self, deadline_s: float) -> bool:
        """Wait until everything is delivered or dropped, at most so long; whether nothing is left.

        What is left stays on disk for the next watcher.
        """
        end = time.monotonic() + deadline_s
        with self._changed:
            while self._items and (rest := end - time.monotonic()) > 0:
                self._changed.wait(rest)
            return not self._items

    def close(self, deadline_s: float = 0.0) -> bool:
        """As `drain`, then end the thread without waiting for a send under way."""
        empty = self.drain(deadline_s)
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        return empty

    # -- the thread ------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._expire()
                found = self._next()
                if self._stopping:
                    return
                if not isinstance(found, tuple):
                    self._changed.wait(found)
                    continue
            name, item = found
            problem, permanent = _attempt(self._lines[name].notifier, item.notice)
            with self._changed:
                self._settle(name, item, problem, permanent=permanent)
                self._changed.notify_all()

    def _next(self) -> tuple[str, _Item] | float:
        """The oldest notice of a target that may be served now, or the seconds until one may."""
        now, wait = time.monotonic(), self._limits.idle_s
        for name, line in self._lines.items():
            item = next((item for item in self._items if name in item.left), None)
            if item is None:
                continue
            if line.ready_at <= now:
                return name, item
            wait = min(wait, line.ready_at - now)
        return wait

    def _settle(self, name: str, item: _Item, problem: str | None, *, permanent: bool) -> None:
        line = self._lines[name]
        line.problem = problem
        if problem is not None and not permanent:
            delay = min(self._limits.first_delay_s * 2 ** min(line.failures, 20), self._limits.last_delay_s)
            line.failures += 1
            line.ready_at = time.monotonic() + delay * random.uniform(0.8, 1.2)  # noqa: S311 -- spread, no secret
            return
        line.failures, line.ready_at = 0, 0.0
        item.left.discard(name)
        if permanent:
            self._dropped += 1
        else:
            self._delivered += 1
        if item not in self._items:
            return
        if item.left:
            self._keep(item)
        else:
            self._forget(item, delivered=True)

    def _expire(self) -> None:
        limit = time.time() - self._limits.keep_s
        for item in [item for item in self._items if item.born < limit]:
            self._forget(item, delivered=False)

    # -- the directory ---------------------------------------------------------------------------------------

    def _keep(self, item: _Item) -> None:
        """Put the notice on disk by rename; a full disk leaves it in memory, which is said nowhere louder."""
        body = {"id": item.id, "born": item.born, "left": sorted(item.left), "notice": item.notice._asdict()}
        path = os.path.join(self._directory, item.name)
        with contextlib.suppress(OSError):
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
                json.dump(body, out)
            os.replace(path + ".new", path)

    def _forget(self, item: _Item, *, delivered: bool) -> None:
        self._items.remove(item)
        if not delivered:
            self._dropped += len(item.left)
        self._known = [*self._known, item.id][-_IDS:]
        with contextlib.suppress(OSError):
            path = os.path.join(self._directory, _DELIVERED)
            with open(path + ".new", "w", encoding="utf-8") as out:
                json.dump(self._known, out)
            os.replace(path + ".new", path)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._directory, item.name))
        self._changed.notify_all()

    def _load(self) -> None:
        """What an earlier watcher left. A file that cannot be read is passed over."""
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(self._directory)):
                body = _read(os.path.join(self._directory, name))
                if name == _DELIVERED and isinstance(body, list):
                    self._known = [str(entry) for entry in body][-_IDS:]
                elif name.endswith(".json") and isinstance(body, Mapping):
                    self._take_up(name, body)

    def _take_up(self, name: str, body: Mapping[str, Any]) -> None:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            notice = ports.Notice(**body["notice"])
            left = {str(target) for target in body["left"]} & set(self._lines)
            number = int(name.partition("-")[0])
            if not left:
                return
            self._items.append(_Item(name, notice, str(body["id"]), float(body["born"]), left))
            self._number = max(self._number, number)


def target_names(targets: Sequence[str]) -> list[str]:
    """A name a target that tells nothing of it and stays the same: a short digest."""
    return [hashlib.sha256(target.encode()).hexdigest()[:12] for target in targets]


def _attempt(notifier: ports.Notifier, notice: ports.Notice) -> tuple[str | None, bool]:
    """The failure in words (None: delivered), and whether trying again is vain."""
    try:
        notifier.send(notice)
    except ports.DeliveryFailed as error:
        return str(error), error.permanent
    except Exception as error:  # noqa: BLE001 -- the border of our thread: a notifier's bug must not end it
        return f"{type(error).__name__}: {error}"[:300], False
    return None, False


def _clean(notice: ports.Notice, redact: Callable[[str], str]) -> ports.Notice:
    return ports.Notice(
        notice.event,
        notice.run,
        redact(notice.title),
        redact(notice.text),
        {str(key): _masked(value, redact) for key, value in notice.payload.items()},
    )


def _masked(value: object, redact: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {str(key): _masked(item, redact) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_masked(item, redact) for item in value]
    return value


def _file_name(number: int, notice_id: str) -> str:
    return f"{number:08d}-{hashlib.sha256(notice_id.encode()).hexdigest()[:12]}.json"


def _read(path: str) -> object:
    try:
        with open(path, "rb") as source:
            body: object = json.loads(source.read(1 << 20))
    except (OSError, ValueError):
        return None
    return body
