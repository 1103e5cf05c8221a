"""An object and its pods as they were seen together: what that was judged to be, and whose logs are read."""

import operator
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from runward.core import job, kubernetes

Object = Mapping[str, Any]
_STREAMS = 8
"""Pods of an owner whose logs are read when one has failed: failed ones first."""


class Looked:
    """An object and its pods as they were seen, and what that was judged to be."""

    def __init__(self, owner: Object, pods: list[Object], seen: job.JobStatus) -> None:
        self.owner, self.pods, self.seen = owner, pods, seen

    def stands(self, owner: Object, pods: Sequence[Object]) -> bool:
        """Whether these are the same still, and time alone changes nothing in what they say."""
        same = owner is self.owner and len(pods) == len(self.pods)
        return self._timeless and same and all(map(operator.is_, pods, self.pods))

    @cached_property
    def _timeless(self) -> bool:
        ending = any(one["metadata"].get("deletionTimestamp") for one in (self.owner, *self.pods))
        return self.seen.state in {job.JobState.RUNNING, job.JobState.PENDING} and not ending

    @cached_property
    def first(self) -> list[Object]:
        """The pods whose logs are read: of a healthy job the first rank speaks for all."""
        pods = sorted(self.pods, key=lambda pod: (not failed(pod), rank(pod), kubernetes.name(pod)))
        return pods[: _STREAMS if pods and failed(pods[0]) else 1]


def alive(obj: Object) -> Object:
    """Without the mark of a deletion that is done by now: what stood before it counts."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "deletionTimestamp"}
    return {**obj, "metadata": meta}


def rank(pod: Object) -> tuple[bool, int]:
    """The head or master first, then by index."""
    found = kubernetes.labels(pod)
    if found.get("ray.io/node-type") == "head" or found.get("training.kubeflow.org/replica-type") == "master":
        return False, -1
    known = [found[key] for key in _INDEXES if found.get(key, "").isdigit()]
    return not known, int(known[0]) if known else 0


_INDEXES = (
    "jobset.sigs.k8s.io/job-global-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "training.kubeflow.org/replica-index",
)


def failed(pod: Object) -> bool:
    """Whether a pod has ended in any other way than well."""
    seen = kubernetes.status(pod)
    return seen.state.final and seen.state is not job.JobState.SUCCEEDED
