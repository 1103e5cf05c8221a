"""One kind of object in one namespace, kept by a list and a watch in a thread of its own.

After 410 Gone, after silence (no event and no bookmark) and after every fault the list is asked for anew: what a watch
missed is never taken for what did not happen.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runward import ports
from runward.backends.k8s import api

NOT_YET = "not listed yet"
PAGE = 500
SILENCE_S = 150.0
"""Bookmarks come about once a minute; a watch that says nothing for so long is taken for dead."""
WATCH_S = 290
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
_GRAVES = 4096

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """What is followed, and what is kept of it."""

    path: str
    keep: Callable[[Object], Object] = lambda obj: obj
    changed: Callable[[Object], None] = lambda _obj: None
    """Told of every object that came, changed or went, in the feed's thread."""
    silence_s: float = SILENCE_S


@dataclass
class Feed:
    """See the module. `get` and `every` answer only while `problem` is None."""

    transport: api.Transport
    kind: Kind
    problem: str | None = NOT_YET
    forbidden: bool = False
    """Whether the right to list or watch is missing."""
    lists: int = 0
    """How often everything was listed."""
    _objects: dict[str, Object] = field(default_factory=dict)
    _gone: dict[str, Object] = field(default_factory=dict)
    _named: dict[str, dict[str, dict[str, None]]] = field(default_factory=dict)
    """Label that was asked for -> its value -> names of objects that have it, or had it."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _synced: threading.Event = field(default_factory=threading.Event)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, once; the thread ends with the process."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"k8s {self.kind.path}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Let the thread end at its next event."""
        self._stop.set()

    def wait(self, seconds: float) -> None:
        """Until the first list is there or has failed."""
        self._synced.wait(seconds)

    def get(self, name: str) -> Object | None:
        """The object of that name now."""
        with self._lock:
            return self._objects.get(name)

    def last(self, name: str) -> Object | None:
        """How an object that is gone was seen last."""
        with self._lock:
            return self._gone.get(name)

    def labelled(self, label: str, value: str) -> list[Object]:
        """Objects with that label, then those that went, as they were seen last."""
        with self._lock:
            by_value = self._named.get(label)
            if by_value is None:
                by_value = self._named[label] = {}
                for one in (*self._gone.values(), *self._objects.values()):
                    self._note(one)
            names = by_value.get(value, ())
            found = [known[name] for known in (self._objects, self._gone) for name in names if name in known]
        return [one for one in found if _labels(one).get(label) == value]

    def _note(self, obj: Object) -> None:
        """Remember under which labels that were asked for it may be found; a name is kept until the next list."""
        held = _labels(obj)
        for label, by_value in self._named.items():
            if label in held:
                by_value.setdefault(str(held[label]), {})[str(obj["metadata"]["name"])] = None

    # -- the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failures, version = 0, ""
        while not self._stop.is_set():
            try:
                version = version or self._list()
                version = self._watch(version)
                failures = 0
            except api.Refused as refused:
                failures, version = failures + 1, ""
                self._fail(refused)
            except ports.ContactLost as lost:
                failures, version = failures + 1, ""
                self.problem = str(lost)
            except (KeyError, TypeError, ValueError, AttributeError) as odd:  # an answer of an unknown shape
                failures, version = failures + 1, ""
                self.problem = f"{self.transport.name}: an answer of an unknown shape ({odd!r})"[:300]
            self._synced.set()
            if failures:
                self._stop.wait(_pause(failures))

    def _fail(self, refused: api.Refused) -> None:
        if refused.status == 410:
            return  # listed again at once; the pause grows when that does not help
        self.forbidden = refused.status == 403
        self.problem = api.why(refused) if self.forbidden else f"{self.transport.name}: {refused}"

    def _list(self) -> str:
        found: dict[str, Object] = {}
        more, version = "", ""
        while True:
            query = {"limit": str(PAGE), **({"continue": more} if more else {})}
            page = api.read(self.transport, api.Ask(self.kind.path, query, deadline_s=60.0))
            for one in page["items"]:
                found[str(one["metadata"]["name"])] = self.kind.keep(one)
            meta = page["metadata"]
            more, version = str(meta.get("continue") or ""), str(meta.get("resourceVersion") or "")
            if not more:
                break
        self._replace(found)
        self.problem, self.forbidden = None, False
        self.lists += 1
        self._synced.set()
        return version

    def _replace(self, found: dict[str, Object]) -> None:
        with self._lock:
            before, self._objects = self._objects, found
            self._named.clear()
            went = [obj for name, obj in before.items() if name not in found]
            for obj in went:
                self._bury(obj)
            news = [obj for name, obj in found.items() if _version(before.get(name)) != _version(obj)]
        for obj in (*went, *news):
            self.kind.changed(obj)

    def _watch(self, version: str) -> str:
        """Follow until the server ends the watch; the version to go on from."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_S + random.randrange(20)),  # noqa: S311 -- no secret
        }
        began = time.monotonic()
        asked = api.Ask(self.kind.path, query, deadline_s=self.kind.silence_s)
        with self.transport.lines(asked) as lines:
            for line in lines:
                if self._stop.is_set():
                    break
                if line.strip():
                    version = self._event(json.loads(line)) or version
        if time.monotonic() - began < 1.0:
            self._stop.wait(_FIRST_WAIT_S)  # a server that ends watches at once is not asked in a tight loop
        return version

    def _event(self, event: Mapping[str, Any]) -> str:
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            raise api.Refused(int(obj.get("code") or 410), str(obj.get("reason")), str(obj.get("message")))
        version = str(obj["metadata"].get("resourceVersion") or "")
        if kind == "BOOKMARK":
            return version
        kept, name = self.kind.keep(obj), str(obj["metadata"]["name"])
        with self._lock:
            if kind == "DELETED":
                self._objects.pop(name, None)
                self._bury(kept)
            else:
                self._objects[name] = kept
                self._note(kept)
        self.kind.changed(kept)
        return version

    def _bury(self, obj: Object) -> None:
        self._gone[str(obj["metadata"]["name"])] = obj
        while len(self._gone) > _GRAVES:
            self._gone.pop(next(iter(self._gone)))


def _labels(obj: Object) -> Mapping[str, Any]:
    found = obj["metadata"].get("labels")
    return found if isinstance(found, Mapping) else {}


def _version(obj: Object | None) -> object:
    return obj["metadata"].get("resourceVersion") if obj is not None else None


def _pause(failures: int) -> float:
    longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(failures - 1, 10))
    return longest * (0.5 + random.random() / 2)  # noqa: S311 -- no secret
