"""Pods and their owners as jobs of one cluster: answered from watches that all runs of a process share.

The id of a job is `NAMESPACE/[KIND/]NAME@UID`. An object that is gone after it was seen is over; one that was never
seen, and everything that could not be asked, says nothing.
"""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runward import ports
from runward.backends.k8s import api, feed, logs, manifests, targets
from runward.core import errors, job, kubernetes, kubernetes_owners

Object = Mapping[str, Any]
FIRST_LIST_S = 15.0
_STREAMS = 8
"""Pods of an owner whose logs are read when one has failed: failed ones first."""


class Cluster:
    """See `ports.Backend`."""

    name = "k8s"

    def __init__(self, transport: api.Transport, clock: Callable[[], float] = time.time) -> None:
        self.transport = transport
        self._clock = clock
        self._feeds: dict[tuple[str, str], feed.Feed] = {}
        self._wake: dict[str, int] = {}
        """Handle -> descriptor that becomes readable when it is worth a look."""
        self._told: set[str] = set()
        """Handles of which something changed since they were polled."""
        self._woken_by: dict[tuple[str, str, str], set[str]] = {}
        """(namespace, label or kind, value) -> handles."""
        self._last: dict[str, tuple[Object, list[Object]]] = {}
        """Handle -> its object and pods as they were seen last."""
        self._logs: dict[str, list[weakref.ref[logs.PodLog]]] = {}
        self._lock = threading.Lock()

    # -- looking ---------------------------------------------------------------------------------------------

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`."""
        return {one: self._status(one) for one in jobs}

    def _status(self, handle: str) -> job.JobStatus | job.Unseen:
        now = self._clock()
        self._drain(handle)
        target = targets.parse(handle)
        try:
            owner = self._object(target, handle)
            pods = self._pods(target, owner, handle) if owner is not None else []
        except ports.ContactLost as lost:
            return job.Unseen(str(lost), now)
        if owner is None:
            return self._gone(handle, target, now)
        self._last[handle] = (owner, pods)
        return self.judge(target, owner, pods)

    def judge(self, target: targets.Target, owner: Object, pods: Sequence[Object]) -> job.JobStatus:
        """What an object and its pods say."""
        if target.kind is kubernetes_owners.POD:
            return kubernetes.status(owner, now=self._clock())
        return kubernetes_owners.status(target.kind, owner, pods, self._clock())

    def _gone(self, handle: str, target: targets.Target, now: float) -> job.JobStatus | job.Unseen:
        """It is not there: over, when it was seen before. Its last state is kept where that was an end."""
        kept = self._last.get(handle)
        one = self._feeds.get((target.namespace, target.kind.word))
        buried = one.last(target.name) if one is not None else None
        if buried is not None and kubernetes.uid(buried) == target.uid:
            kept = (buried, kept[1] if kept else [])
        if kept is None and not target.uid:
            return job.Unseen(f"there is no {target.kind.word} {target}", now)
        if kept is not None:
            seen = self.judge(target, _alive(kept[0]), [_alive(pod) for pod in kept[1]])
            if seen.state.final:
                return seen
        return job.JobStatus(
            job.JobState.CANCELLED,
            "Deleted",
            job.ExitStatus.unseen(),
            node=kubernetes.node_of(kept[0]) if kept else None,
            ended_at=now,
            proof="it is not in the cluster any more",
        )

    def _object(self, target: targets.Target, handle: str) -> Object | None:
        one = self._feed(target.namespace, target.kind)
        self._wakes(handle, target.namespace, target.kind.word, target.name)
        found = self.fetch(target) if one.forbidden else self._listed(one, target.name)
        if found is not None and target.uid and kubernetes.uid(found) != target.uid:
            return None
        return found

    @staticmethod
    def _listed(one: feed.Feed, name: str) -> Object | None:
        if one.problem is not None:
            raise ports.ContactLost(one.problem)
        return one.get(name)

    def _pods(self, target: targets.Target, owner: Object, handle: str) -> list[Object]:
        if target.kind is kubernetes_owners.POD:
            return [owner]
        label, value = kubernetes_owners.pods_label(target.kind, owner)
        one = self._feed(target.namespace, kubernetes_owners.POD)
        self._wakes(handle, target.namespace, label, value)
        if one.problem is not None:
            raise ports.ContactLost(one.problem)
        return one.labelled(label, value) if value else []

    def fetch(self, target: targets.Target) -> Object | None:
        """The object, asked for now; None when the cluster says that there is none. Raises ContactLost."""
        try:
            return api.read(self.transport, api.Ask(target.path))
        except api.Refused as refused:
            if refused.status == 404:
                if "could not find the requested resource" in str(refused):
                    raise ports.ContactLost(
                        f"the cluster has no {target.kind.kind} (its CRD {target.kind.group} is not installed)"
                    ) from refused
                return None
            raise ports.ContactLost(_why_refused(refused)) from refused

    def pods_of(self, target: targets.Target, owner: Object) -> list[Object]:
        """Pods of an object, asked for now. Raises ContactLost."""
        if target.kind is kubernetes_owners.POD:
            return [owner]
        label, value = kubernetes_owners.pods_label(target.kind, owner)
        if not value:
            return []
        asked = api.Ask(kubernetes_owners.POD.path(target.namespace), {"labelSelector": f"{label}={value}"})
        try:
            return list(api.read(self.transport, asked).get("items") or ())
        except api.Refused as refused:
            raise ports.ContactLost(_why_refused(refused)) from refused

    def warnings(self, target: targets.Target) -> list[str]:
        """Warnings about an object: `REASON: message`; none where events may not be read."""
        chosen = f"involvedObject.name={target.name},type=Warning"
        asked = api.Ask(f"/api/v1/namespaces/{target.namespace}/events", {"fieldSelector": chosen})
        with contextlib.suppress(api.Refused, ports.ContactLost):
            items = api.read(self.transport, asked).get("items") or ()
            return [
                f"{one.get('reason')}: {one.get('message')}"[:500] for one in items if isinstance(one, dict)
            ]
        return []

    def node(self, name: str) -> tuple[Object | None, str]:
        """A node and why it cannot be seen; (None, "") when there is no such node."""
        try:
            return api.read(self.transport, api.Ask(f"/api/v1/nodes/{name}")), ""
        except api.Refused as refused:
            return None, "" if refused.status == 404 else _why_refused(refused)
        except ports.ContactLost as lost:
            return None, str(lost)

    def running(self, job_id: str) -> str | None:
        """`NAMESPACE/POD` of a pod of it that ran when it was last looked at: one that can be looked into."""
        owner, pods = self._last.get(job_id, (None, []))
        del owner
        up = [pod for pod in pods if kubernetes.status(pod).state is job.JobState.RUNNING]
        first = min(up, key=lambda pod: (_rank(pod), kubernetes.name(pod)), default=None)
        return f"{targets.parse(job_id).namespace}/{kubernetes.name(first)}" if first is not None else None

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`: the pod's; of an owner, those of its first pods."""
        target = targets.parse(job_id)
        owner, pods = self._last.get(job_id, (None, []))
        if target.kind is kubernetes_owners.POD:
            pods = [owner] if owner is not None else []
        pods = sorted(pods, key=lambda pod: (not failed(pod), _rank(pod), kubernetes.name(pod)))
        pods = pods[
            : _STREAMS if pods and failed(pods[0]) else 1
        ]  # of a healthy job the first rank speaks for all
        return [self._log(target.namespace, pod, job_id) for pod in pods]

    def ask_for_logs(self, job_id: str) -> None:
        """Begin to ask for all logs of a job that are followed: the look that comes next finds their answers."""
        for kept in self._logs.get(job_id, ()):
            stream = kept()
            if stream is not None:
                stream.begin()

    def _log(self, namespace: str, pod: Object, job_id: str) -> ports.LogStream:
        name = kubernetes.name(pod)
        one = self._feed(namespace, kubernetes_owners.POD)
        of = logs.Container(namespace, name, kubernetes.main_container(pod))

        def state() -> logs.State:
            known = one.get(name) or one.last(name) or {}
            main = kubernetes.main_status(known)
            before = ((main.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
            over = one.get(name) is None or kubernetes.status(known).state.final
            return logs.State(int(main.get("restartCount") or 0), over, str(before or ""))

        stream = logs.PodLog(self.transport, of, state, lambda: self.ask_for_logs(job_id))
        kept = [one for one in self._logs.get(job_id, ()) if one() is not None]
        self._logs[job_id] = [*kept, weakref.ref(stream)]
        return stream

    # -- acting ----------------------------------------------------------------------------------------------

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`: the manifest of `spec.options`, made under a name of the token's own."""
        namespace, manifest = manifests.from_spec(spec, token)
        kind = kubernetes_owners.kind_of(manifest)
        if kind is None:
            raise errors.UsageError(f"{manifest.get('kind')} is no kind that can be started")
        target = targets.Target(namespace, kind, kubernetes.name(manifest))
        asked = api.Ask(kind.path(namespace), method="POST", body=manifest, deadline_s=60.0)
        try:
            made: Object | None = api.read(self.transport, asked)
        except api.Refused as refused:
            made = self.fetch(target) if refused.reason == "AlreadyExists" else None
            if made is None or manifests.token_of(made) != token:
                where = f"k8s:{target}"
                raise errors.UsageError(
                    errors.Problem(f"the cluster refused it: {refused}", where)
                ) from refused
        return replace(target, uid=kubernetes.uid(made)).handle

    def find_in(self, namespace: str, kind: kubernetes_owners.Kind, token: str) -> str | None:
        """The job of that token, or None when there certainly is none. Raises ContactLost."""
        target = targets.Target(namespace, kind, manifests.name_of(token))
        found = self.fetch(target)
        if found is None or manifests.token_of(found) != token:
            return None
        return replace(target, uid=kubernetes.uid(found)).handle

    def find(self, token: str) -> str | None:
        """A token does not say in which namespace: see `find_in`."""
        del token
        return None

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`: deleted with what it owns, by its UID, and never by force."""
        target = targets.parse(job_id)
        body: dict[str, Any] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Foreground",
        }
        if target.uid:
            body["preconditions"] = {"uid": target.uid}
        if target.kind is kubernetes_owners.POD:
            body["gracePeriodSeconds"] = 1 if plan.now else max(1, round(plan.grace_s))
        try:
            self.transport.ask(api.Ask(target.path, method="DELETE", body=body))
        except api.Refused as refused:
            if refused.status not in (404, 409):  # gone, or another one has its name by now
                raise ports.ContactLost(_why_refused(refused)) from refused

    # -- what wakes a run ------------------------------------------------------------------------------------

    def wake_fds(self, handle: str) -> Sequence[int]:
        """A descriptor that becomes readable when something of this job changed; none from then until it is polled."""
        if handle in self._told:
            return ()
        descriptor = self._wake.get(handle)
        if descriptor is None:
            with self._lock:
                descriptor = self._wake[handle] = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return (descriptor,)

    def stirred(self, handle: str) -> bool:
        """Whether something of this job changed since it was polled."""
        return handle in self._told

    def _drain(self, handle: str) -> None:
        """Both at once: what comes after this is told again."""
        with self._lock:
            self._told.discard(handle)
            descriptor = self._wake.get(handle)
            if descriptor is not None:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(descriptor)

    def _wakes(self, handle: str, namespace: str, what: str, value: str) -> None:
        with self._lock:
            self._woken_by.setdefault((namespace, what, value), set()).add(handle)

    def _changed(self, namespace: str, word: str) -> Callable[[Object], None]:
        def changed(obj: Object) -> None:
            keys: Iterable[tuple[str, str, str]] = [(namespace, word, kubernetes.name(obj))]
            if word == "pod":
                keys = [*keys, *((namespace, label, value) for label, value in labels(obj).items())]
            with self._lock:
                handles = {one for key in keys for one in self._woken_by.get(key, ())}
                for one in handles:
                    if one in self._wake and one not in self._told:
                        self._told.add(one)
                        os.eventfd_write(self._wake[one], 1)

        return changed

    def _feed(self, namespace: str, kind: kubernetes_owners.Kind) -> feed.Feed:
        key = (namespace, kind.word)
        with self._lock:
            one = self._feeds.get(key)
            if one is None:
                keep = manifests.pod_without_rest if kind is kubernetes_owners.POD else manifests.without_rest
                followed = feed.Kind(kind.path(namespace), keep, self._changed(namespace, kind.word))
                one = self._feeds[key] = feed.Feed(self.transport, followed)
        if one.problem == feed.NOT_YET:
            one.start()
            one.wait(FIRST_LIST_S)
        return one


def labels(obj: Object) -> Mapping[str, str]:
    """An object's labels."""
    found = (obj.get("metadata") or {}).get("labels")
    return found if isinstance(found, Mapping) else {}


def _alive(obj: Object) -> Object:
    """Without the mark of a deletion that is done by now: what stood before it counts."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "deletionTimestamp"}
    return {**obj, "metadata": meta}


def _rank(pod: Object) -> tuple[bool, int]:
    """The head or master first, then by index."""
    found = labels(pod)
    if found.get("ray.io/node-type") == "head" or found.get("training.kubeflow.org/replica-type") == "master":
        return False, -1
    known = [found[key] for key in _INDEXES if found.get(key, "").isdigit()]
    return not known, int(known[0]) if known else 0


_INDEXES = (
    "jobset.sigs.k8s.io/job-global-index",
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
)


def failed(pod: Object) -> bool:
    """Whether a pod has ended in any other way than well."""
    seen = kubernetes.status(pod)
    return seen.state.final and seen.state is not job.JobState.SUCCEEDED


def _why_refused(refused: api.Refused) -> str:
    return api.forbidden(refused) if refused.status == 403 else str(refused)
