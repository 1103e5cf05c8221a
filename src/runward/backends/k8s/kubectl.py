"""Pods by `kubectl`: JSON out, a deadline on every call. Reads only; nothing here changes the cluster."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runward import ports
from runward.core import errors, job, kubernetes

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_GONE = re.compile(r"\(NotFound\)|pods? \"[^\"]*\" not found")
_LOG_BYTES = 64 << 20


@dataclass
class Pods:
    """Pods as jobs, by `NAMESPACE/POD`."""

    host: ports.Runner
    kubectl: Sequence[str] = ("kubectl",)
    name: str = "k8s"
    _uids: dict[str, str] = field(default_factory=dict)

    def pod(self, where: str) -> Mapping[str, Any] | None:
        """The pod's object; None when the cluster says that there is none. Raises ContactLost."""
        namespace, pod = split(where)
        done = self._run("get", "pod", "-n", namespace, pod, "-o", "json")
        if not done.ok:
            words = done.stderr.decode("utf-8", "replace").strip()
            if _GONE.search(words):
                return None
            raise ports.ContactLost(f"kubectl: {words[:300] or 'no answer in time'}")
        try:
            found = json.loads(done.stdout)
        except ValueError as error:
            raise ports.ContactLost(f"kubectl: no JSON, but {done.stdout[:80]!r}") from error
        if not isinstance(found, dict):
            raise ports.ContactLost("kubectl: no object in the answer")
        return found

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`. A pod that is gone took its exit code with it; another one that got its name
        since is another job.
        """
        return {one: self._status(one) for one in jobs}

    def _status(self, where: str) -> job.JobStatus | job.Unseen:
        try:
            found = self.pod(where)
        except ports.ContactLost as lost:
            return job.Unseen(str(lost), time.time())
        uid = str((found or {}).get("metadata", {}).get("uid") or "")
        if found is None or self._uids.setdefault(where, uid) != uid:
            if where not in self._uids:
                return job.Unseen(f"there is no pod {where}", time.time())
            word = "Deleted" if found is None else "Deleted, and made anew"
            return job.JobStatus(job.JobState.CANCELLED, word, job.ExitStatus.unseen(), ended_at=time.time())
        return kubernetes.status(found)

    def text(self, where: str, *, previous: bool = False) -> bytes:
        """The log of a pod's container, or of the one before it; empty when there is none. Raises ContactLost."""
        namespace, pod = split(where)
        more = ("--previous",) if previous else ()
        done = self._run("logs", "-n", namespace, pod, *more, limit=_LOG_BYTES)
        words = done.stderr.decode("utf-8", "replace").strip()
        if not done.ok and not re.search(r"NotFound|not found|waiting to start|is terminated", words):
            raise ports.ContactLost(f"kubectl: {words[:300] or 'no answer in time'}")
        return done.stdout

    def events(self, where: str) -> list[str]:
        """Warnings about a pod: `REASON: message`. Raises ContactLost."""
        namespace, pod = split(where)
        chosen = f"involvedObject.name={pod},type=Warning"
        done = self._run("get", "events", "-n", namespace, "--field-selector", chosen, "-o", "json")
        try:
            items = json.loads(done.stdout)["items"] if done.ok else []
        except (ValueError, KeyError, TypeError):
            return []
        return [f"{one.get('reason')}: {one.get('message')}"[:500] for one in items if isinstance(one, dict)]

    def _run(self, *argv: str, limit: int = 16 << 20) -> ports.Completed:
        asked = ports.Call((*self.kubectl, *argv, "--request-timeout=20s"), deadline_s=30.0, limit=limit)
        done = self.host.run(asked)
        if done.code == 127:
            raise ports.ContactLost("kubectl is not installed here")
        return done


class PodLog:
    """A pod's log as a stream: read whole at each look, as kubectl knows no place to go on from."""

    rank: int | None = None

    def __init__(self, pods: Pods, where: str) -> None:
        self.name = f"k8s:{where}"
        self._pods, self._where, self._offset = pods, where, 0

    def read_new(self, budget: int) -> Sequence[ports.Chunk]:
        """See `ports.LogStream.read_new`."""
        text = self._pods.text(self._where)
        if len(text) < self._offset:
            self._offset = 0
            return [ports.Chunk(0, text[:budget], restarted=True)] if text else []
        data = text[self._offset : self._offset + budget]
        if not data:
            return []
        chunk = ports.Chunk(self._offset, data)
        self._offset += len(data)
        return [chunk]


def split(where: str) -> tuple[str, str]:
    """Namespace and pod of `NAMESPACE/POD`. Raises UsageError."""
    namespace, _, pod = where.rpartition("/")
    namespace = namespace or "default"
    if not _NAME.fullmatch(namespace) or not _NAME.fullmatch(pod):
        raise errors.UsageError(
            errors.Problem(f"{where!r} names no pod", "k8s:", next_step="Write k8s:NAMESPACE/POD.")
        )
    return namespace, pod
