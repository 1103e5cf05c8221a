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
from typing import Any

from runward import ports
from runward.backends.k8s import api, feed, logs, looked, manifests, scaling, targets
from runward.core import errors, job, kubernetes, kubernetes_owners

Object = Mapping[str, Any]
FIRST_LIST_S = 15.0


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
        self._last: dict[str, looked.Looked] = {}
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
        kept = self._last.get(handle)
        if kept is not None and kept.stands(owner, pods):
            return kept.seen
        seen = self.judge(target, owner, pods)
        self._last[handle] = looked.Looked(owner, pods, seen)
        return self._confirmed(target, seen) if target.kind.scaled and seen.state.final else seen

    def _confirmed(self, target: targets.Target, seen: job.JobStatus) -> job.JobStatus | job.Unseen:
        """The end of what can begin again under the same name: a watch may still tell of what was before that."""
        try:
            owner = self.fetch(target)
            return self.judge(target, owner, self.pods_of(target, owner)) if owner is not None else seen
        except ports.ContactLost as lost:
            return job.Unseen(str(lost), self._clock())

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
            kept = looked.Looked(buried, kept.pods if kept else [], self.judge(target, buried, ()))
        if kept is None and not target.uid:
            return job.Unseen(f"there is no {target.kind.word} {target}", now)
        if kept is not None:
            seen = self.judge(target, looked.alive(kept.owner), [looked.alive(pod) for pod in kept.pods])
            if seen.state.final:
                return seen
        return job.JobStatus(
            job.JobState.CANCELLED,
            "Deleted",
            job.ExitStatus.unseen(),
            node=kubernetes.node_of(kept.owner) if kept else None,
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
        found = one.labelled(label, value) if value else []
        if target.kind.scaled:  # of an owner that goes on with others, pods that are gone say nothing
            found = [pod for pod in found if one.get(kubernetes.name(pod)) is pod]
        return [pod for pod in found if kubernetes_owners.selects(target.kind, owner, pod)]

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
            raise ports.ContactLost(api.why(refused)) from refused

    def pods_of(self, target: targets.Target, owner: Object) -> list[Object]:
        """Pods of an object, asked for now. Raises ContactLost."""
        if target.kind is kubernetes_owners.POD:
            return [owner]
        label, value = kubernetes_owners.pods_label(target.kind, owner)
        if not value:
            return []
        asked = api.Ask(kubernetes_owners.POD.path(target.namespace), {"labelSelector": f"{label}={value}"})
        try:
            found = list(api.read(self.transport, asked).get("items") or ())
        except api.Refused as refused:
            raise ports.ContactLost(api.why(refused)) from refused
        return [pod for pod in found if kubernetes_owners.selects(target.kind, owner, pod)]

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
            return None, "" if refused.status == 404 else api.why(refused)
        except ports.ContactLost as lost:
            return None, str(lost)

    def running(self, job_id: str) -> str | None:
        """`NAMESPACE/POD` of a pod of it that ran when it was last looked at: one that can be looked into."""
        kept = self._last.get(job_id)
        up = [
            pod for pod in (kept.pods if kept else ()) if kubernetes.status(pod).state is job.JobState.RUNNING
        ]
        first = min(up, key=lambda pod: (looked.rank(pod), kubernetes.name(pod)), default=None)
        return f"{targets.parse(job_id).namespace}/{kubernetes.name(first)}" if first is not None else None

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`: the pod's; of an owner, those of its first pods."""
        kept = self._last.get(job_id)
        namespace = targets.parse(job_id).namespace
        return [self._log(namespace, pod, job_id) for pod in kept.first] if kept is not None else []

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

        known: Object = {}
        stands = logs.State(0, over=False)

        def state() -> logs.State:
            nonlocal known, stands
            living = one.get(name)
            if living is not None and living is known:
                return stands
            known = living or one.last(name) or {}
            main = kubernetes.main_status(known)
            before = ((main.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
            over = living is None or kubernetes.status(known).state.final
            stands = logs.State(int(main.get("restartCount") or 0), over, str(before or ""))
            return stands

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
        if kind.scaled:
            return self._begin(target, manifest)
        asked = api.Ask(kind.path(namespace), method="POST", body=manifest, deadline_s=60.0)
        try:
            made: Object = api.read(self.transport, asked)
        except api.Refused as refused:
            there = self.fetch(target) if refused.reason == "AlreadyExists" else None
            if there is None or manifests.token_of(there) != token:
                where = f"k8s:{target}"
                raise errors.UsageError(
                    errors.Problem(f"the cluster refused it: {refused}", where)
                ) from refused
            made = there
        return target.of(made).handle

    def _begin(self, target: targets.Target, manifest: Object) -> str:
        """See `scaling.begin`; nothing of the attempt before may be left, not even a pod that is ending."""

        def living(owner: Object) -> int:
            return sum(not kubernetes.terminal(pod) for pod in self.pods_of(target, owner))

        begun = scaling.begin(self.transport, target, manifest, living)
        return target.of(begun).handle

    def find_in(self, namespace: str, manifest: Object, token: str) -> str | None:
        """The job of that token, or None when there certainly is none. Raises ContactLost."""
        kind = kubernetes_owners.kind_of(manifest)
        if kind is None:
            return None
        target = targets.Target(namespace, kind, manifests.target_name(manifest, token))
        found = self.fetch(target)
        if found is None or manifests.token_of(found) != token:
            return None
        return target.of(found).handle

    def find(self, token: str) -> str | None:
        """A token does not say in which namespace: see `find_in`."""
        del token
        return None

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`: deleted with what it owns, by its UID, and never by force."""
        target = targets.parse(job_id)
        if target.kind.scaled:
            scaling.end(self.transport, target)
            return
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
                raise ports.ContactLost(api.why(refused)) from refused

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
                keys = [
                    *keys,
                    *((namespace, label, value) for label, value in kubernetes.labels(obj).items()),
                ]
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
