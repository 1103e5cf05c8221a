"""Pods as runs: watched only. What begins a pod again is its owner's affair, and it is left to it."""

from collections.abc import Mapping, Sequence

from runward import ports
from runward.backends.k8s import kubectl
from runward.core import errors, job, observations, options
from runward.wiring import k8s
from runward.wiring.place import Place

_GIVEN = "given:"
_LET_GO = job.JobStatus(job.JobState.CANCELLED, "let go", job.ExitStatus.unseen())


class _Watched:
    """Pods by the handles of attached runs."""

    name = "k8s"

    def __init__(self, pods: kubectl.Pods) -> None:
        self._pods = pods
        self._let_go: set[str] = set()

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`."""
        found = self._pods.poll([_pod(handle) for handle in jobs])
        return {one: _LET_GO if one in self._let_go else found[_pod(one)] for one in jobs}

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`: refused."""
        del spec, token
        raise errors.UsageError("a pod is only watched: it cannot be started again from here")

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`."""
        del token
        return None

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`: it is no longer watched."""
        del plan
        self._let_go.add(job_id)

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`."""
        return [kubectl.PodLog(self._pods, _pod(job_id))]


def _pod(handle: str) -> str:
    return handle.removeprefix(_GIVEN)


def place(asked: options.RunOptions, acts: bool = True) -> Place:
    """The place of an attached pod. Raises UsageError for a run that was handed over."""
    if acts and not asked.observe_only:
        raise errors.UsageError(
            errors.Problem("pods can only be watched", "--act", next_step="Attach without --act.")
        )
    kubectl.split(asked.target.removeprefix("k8s:"))
    return Place(
        backend=_Watched(k8s.pods()),
        describe=lambda handle: observations.Launched(_pod(handle), handle),
    )
