"""Objects that own pods, as jobs: Job, JobSet, RayJob, RayCluster, PyTorchJob, TrainJob, StatefulSet, .... Pure.

An owner is over when its own status says so, which is when nobody but us would start it again (its back-off limit,
restart policy or failure policy is used up), and no pod of it lives any more. Why, its first failed pod tells.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runward.core import job, kubernetes
from runward.core.kubernetes import Object

S = job.JobState
LATE_S = 10.0
"""So long after an owner's end its pods' own ends are waited for: the two come over different watches."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object that can be followed."""

    word: str
    """As in `k8s:NAMESPACE/WORD/NAME`."""
    kind: str
    group: str
    version: str
    plural: str
    label: str = ""
    """The label of its pods that carries its name."""
    scaled: bool = False
    """Whether it makes its pods anew whenever they go: it has no end but `replicas: 0`."""

    @property
    def api(self) -> str:
        """`apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "") -> str:
        """The path of its objects in a namespace, or of one."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


POD = Kind("pod", "Pod", "", "v1", "pods")
JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
RAY_LABEL = "ray.io/cluster"
KINDS: Mapping[str, Kind] = {
    one.word: one
    for one in (
        POD,
        Kind("job", "Job", "batch", "v1", "jobs", "batch.kubernetes.io/job-name"),
        Kind("jobset", "JobSet", "jobset.x-k8s.io", "v1alpha2", "jobsets", JOBSET_LABEL),
        Kind("rayjob", "RayJob", "ray.io", "v1", "rayjobs", RAY_LABEL),
        Kind("raycluster", "RayCluster", "ray.io", "v1", "rayclusters", RAY_LABEL),
        Kind(
            "pytorchjob", "PyTorchJob", "kubeflow.org", "v1", "pytorchjobs", "training.kubeflow.org/job-name"
        ),
        Kind("trainjob", "TrainJob", "trainer.kubeflow.org", "v1alpha1", "trainjobs", JOBSET_LABEL),
        Kind("statefulset", "StatefulSet", "apps", "v1", "statefulsets", scaled=True),
        Kind("deployment", "Deployment", "apps", "v1", "deployments", scaled=True),
        Kind("replicaset", "ReplicaSet", "apps", "v1", "replicasets", scaled=True),
    )
}


def kind_of(obj: Object) -> Kind | None:
    """The kind of an object, by its group and kind."""
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    return next((one for one in KINDS.values() if (one.group, one.kind) == (group, obj.get("kind"))), None)


def pods_label(kind: Kind, owner: Object) -> tuple[str, str]:
    """Label and value of an owner's pods; a RayJob's are those of the cluster that was made for it.

    Of several labels in a selector the first by name; `selects` asks for the others.
    """
    if kind.scaled:
        return min(_selector(owner).items(), default=("", ""))
    value = kubernetes.name(owner)
    if kind.word == "rayjob":
        value = str((owner.get("status") or {}).get("rayClusterName") or "")
    return kind.label, value


def selects(kind: Kind, owner: Object, pod: Object) -> bool:
    """Whether a pod with the label of `pods_label` is the owner's."""
    return not kind.scaled or _selector(owner).items() <= dict(kubernetes.labels(pod)).items()


def _selector(owner: Object) -> dict[str, str]:
    found = ((owner.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return {str(key): str(value) for key, value in found.items()}


def replicas(owner: Object) -> int:
    """How many pods a scaled owner is to have."""
    found = (owner.get("spec") or {}).get("replicas")
    return int(found) if found is not None else 1


def maker(obj: Object) -> Object | None:
    """The controller that made an object, as the object refers to it; None for one that a person made."""
    for one in (obj.get("metadata") or {}).get("ownerReferences") or ():
        if one.get("controller"):
            found: Object = one
            return found
    return None


@dataclass(frozen=True, slots=True)
class _Said:
    """What an owner's own status says."""

    state: job.JobState
    word: str
    reason: str = ""
    restarts: int = 0
    ended_at: float | None = None


def status(kind: Kind, owner: Object, pods: Sequence[Object], now: float) -> job.JobStatus:
    """An owner with its pods, those that are gone as they were seen last."""
    said = _scaled(owner) if kind.scaled else _SAYS[kind.word](owner.get("status") or {})
    every = [(pod, kubernetes.status(pod, now=now)) for pod in pods]
    last = _last_try(every)
    seen = [one for _, one in last]
    if (owner.get("metadata") or {}).get("deletionTimestamp"):
        said = replace(said, state=S.ENDING, word="Terminating")
    living = [one for pod, one in last if not kubernetes.terminal(pod)]
    fresh = said.ended_at is None or now - said.ended_at < LATE_S
    if said.state.final and any(fresh or one.state is S.ENDING for one in living):
        said = replace(said, state=S.ENDING)  # what its pods say of their end is still on its way
    if said.state is S.PENDING and any(one.state is S.RUNNING for one in seen):
        said = replace(said, state=S.RUNNING)
    first = first_failed(seen) or first_failed([one for _, one in every])
    if said.state.final and said.state is not S.SUCCEEDED and first is not None:
        return _by_pod(said, first)
    return _plain(said, seen)


def _last_try(pods: Sequence[tuple[Object, job.JobStatus]]) -> list[tuple[Object, job.JobStatus]]:
    """Pods of the newest try: those that ended before the newest pod was made belong to an earlier one."""
    made = [kubernetes.instant((pod.get("metadata") or {}).get("creationTimestamp")) for pod, _ in pods]
    newest = max((at for at in made if at is not None), default=0.0)
    return [(pod, one) for pod, one in pods if (one.ended_at or newest) >= newest]


def first_failed(seen: Sequence[job.JobStatus]) -> job.JobStatus | None:
    """The pod that failed first: the others went because of it."""
    failed = [one for one in seen if one.state.final and one.state is not S.SUCCEEDED]
    return min(failed, key=lambda one: (one.ended_at or float("inf"), _weight(one)), default=None)


def _weight(one: job.JobStatus) -> int:
    """Of two ends at one time, what proves more comes first; 143 and 137 are mostly teardown."""
    if one.state is not S.FAILED:
        return 0
    return 2 if one.exit is not None and one.exit.code in (137, 143) else 1


def _by_pod(said: _Said, pod: job.JobStatus) -> job.JobStatus:
    """A failed owner takes its state from the pod that failed first, unless it has a better one itself."""
    state = said.state if said.state is not S.FAILED else pod.state
    word = said.word if said.state is not S.FAILED else pod.word
    return pod._replace(
        state=state,
        word=word,
        reason="; ".join(part for part in (said.word, said.reason, pod.reason) if part)[:2000],
        ended_at=said.ended_at or pod.ended_at,
        restarts=said.restarts,
        proof="Kubernetes says that it has ended, and none of its pods runs",
    )


def _plain(said: _Said, seen: Sequence[job.JobStatus]) -> job.JobStatus:
    waiting = [one for one in seen if one.state is S.PENDING and one.word not in {"Pending", ""}]
    word = waiting[0].word if said.state is S.PENDING and waiting else said.word
    reasons = dict.fromkeys([said.reason, *(one.reason for one in waiting)])
    left = tuple(text for one in seen for text in one.left) if said.state is S.ENDING else ()
    exit_status = None
    if said.state.final:
        exit_status = job.ExitStatus(0) if said.state is S.SUCCEEDED else job.ExitStatus.unseen()
    return job.JobStatus(
        state=said.state,
        word=word,
        exit=exit_status,
        node=next((one.node for one in seen if one.node), None),
        reason="; ".join(part for part in reasons if part)[:2000],
        started_at=min((one.started_at for one in seen if one.started_at), default=None),
        ended_at=said.ended_at,
        left=left,
        proof="Kubernetes says that it has ended" if said.state.final else "",
        restarts=said.restarts,
    )


# -- what each kind's own status says ------------------------------------------------------------------------


def _job(seen: Object) -> _Said:
    restarts = int(seen.get("failed") or 0)
    left = int(seen.get("active") or 0) + int(seen.get("terminating") or 0)
    failed = kubernetes.condition(seen, "Failed")
    if failed:
        late = failed.get("reason") == "DeadlineExceeded"
        said = _made(S.TIME_LIMIT if late else S.FAILED, failed, restarts)
        return replace(said, state=S.ENDING) if left else said
    done = kubernetes.condition(seen, "Complete")
    if done:
        said = _made(S.SUCCEEDED, done, restarts)
        return replace(said, word="Complete", state=S.ENDING if left else S.SUCCEEDED)
    target = kubernetes.condition(seen, "FailureTarget")
    if target:
        return replace(_made(S.ENDING, target, restarts), ended_at=None)
    if kubernetes.condition(seen, "Suspended"):
        return _Said(S.SUSPENDED, "Suspended", "spec.suspend is set (a queue, or a person)", restarts)
    return _Said(S.PENDING, "Active" if left else "Pending", restarts=restarts)


def _over_or_suspended(seen: Object, succeeded: str, restarts: int) -> _Said | None:
    """What an operator's conditions say of the end or a pause: `Failed`, its word for success, `Suspended`."""
    for kind, state in (("Failed", S.FAILED), (succeeded, S.SUCCEEDED)):
        found = kubernetes.condition(seen, kind)
        if found:
            return replace(_made(state, found, restarts), word=kind)
    if kubernetes.condition(seen, "Suspended"):
        return _Said(S.SUSPENDED, "Suspended", restarts=restarts)
    return None


def _scaled(owner: Object) -> _Said:
    """Pods that go are made anew under it, so it is over only when somebody wanted none any more."""
    if replicas(owner) == 0:
        return _Said(S.CANCELLED, "Scaled to 0", "replicas is 0")
    return _Said(S.PENDING, "Pending")


def _jobset(seen: Object) -> _Said:
    restarts = int(seen.get("restarts") or 0)
    pending = _Said(S.PENDING, "Restarting" if restarts else "Pending", restarts=restarts)
    return _over_or_suspended(seen, "Completed", restarts) or pending


def _trainjob(seen: Object) -> _Said:
    return _over_or_suspended(seen, "Complete", 0) or _Said(S.PENDING, "Pending")


def _pytorchjob(seen: Object) -> _Said:
    statuses = seen.get("replicaStatuses")
    restarts = sum(int(one.get("failed") or 0) for one in (statuses or {}).values() if isinstance(one, dict))
    said = _over_or_suspended(seen, "Succeeded", restarts)
    if said is not None:
        return said
    restarting = kubernetes.condition(seen, "Restarting")
    words = str(restarting.get("message") or "")
    return _Said(S.PENDING, "Restarting" if restarting else "Pending", words, restarts)


def _rayjob(seen: Object) -> _Said:
    deployed, word = str(seen.get("jobDeploymentStatus") or ""), str(seen.get("jobStatus") or "")
    restarts = int(seen.get("failed") or 0)
    reason = "; ".join(str(seen[key]) for key in ("reason", "message") if seen.get(key))
    ended = kubernetes.instant(seen.get("endTime"))
    said = _Said(S.PENDING, word or deployed or "Pending", reason, restarts, ended)
    match deployed:
        case "Complete" | "Failed":
            late = seen.get("reason") == "DeadlineExceeded"
            states = {"SUCCEEDED": S.SUCCEEDED, "STOPPED": S.CANCELLED}
            state = states.get(word, S.TIME_LIMIT if late else S.FAILED)
            return replace(said, state=state, word=word if word in states else (word or deployed))
        case "Suspended":
            return replace(said, state=S.SUSPENDED, word=deployed)
        case "Running" if word == "RUNNING":
            return replace(said, state=S.RUNNING)
        case _:  # Initializing, Waiting, Retrying, Suspending: KubeRay is at work
            return replace(said, word=deployed or said.word, ended_at=None)


def _raycluster(seen: Object) -> _Said:
    word = str(seen.get("state") or "")
    if word == "suspended" or kubernetes.condition(seen, "RayClusterSuspended"):
        return _Said(S.SUSPENDED, "suspended")
    ready = word == "ready" or bool(kubernetes.condition(seen, "HeadPodReady"))
    return _Said(S.RUNNING if ready else S.PENDING, word or "Pending", str(seen.get("reason") or ""))


_SAYS: Mapping[str, Callable[[Mapping[str, Any]], _Said]] = {
    "job": _job,
    "jobset": _jobset,
    "rayjob": _rayjob,
    "raycluster": _raycluster,
    "pytorchjob": _pytorchjob,
    "trainjob": _trainjob,
}


def _made(state: job.JobState, found: Object, restarts: int) -> _Said:
    words = [str(found[key]) for key in ("reason", "message") if found.get(key)]
    ended = kubernetes.instant(found.get("lastTransitionTime"))
    return _Said(state, str(found.get("reason") or state), ": ".join(words), restarts, ended)
