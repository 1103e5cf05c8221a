"""A job that Runward did not start, given as functions: looked at, and ended only when it was handed over."""

from collections.abc import Callable, Mapping, Sequence

from runward import ports
from runward.core import errors, job

PREFIX = "given:"
"""Handles of such jobs begin with this."""


class Given:
    """One job of that kind; everything else goes to the backend that starts things, where there is one."""

    def __init__(
        self,
        status: Callable[[str], job.JobStatus],
        streams: Callable[[str], Sequence[ports.LogStream]],
        end: Callable[[str, ports.EndPlan], None],
        starter: ports.Backend | None = None,
    ) -> None:
        self._status, self._streams, self._end = status, streams, end
        self._starter = starter

    @property
    def name(self) -> str:
        """The starter's name: what a restart would use."""
        return self._starter.name if self._starter is not None else "given"

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`."""
        found: dict[str, job.JobStatus | job.Unseen] = {
            handle: self._status(handle.removeprefix(PREFIX)) for handle in jobs if handle.startswith(PREFIX)
        }
        others = [handle for handle in jobs if not handle.startswith(PREFIX)]
        if others and self._starter is not None:
            found.update(self._starter.poll(others))
        return found

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`. Raises UsageError when nothing can be started here."""
        if self._starter is None:
            raise errors.UsageError("this run is only observed: it cannot be started again from here")
        return self._starter.submit(spec, token)

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`."""
        return self._starter.find(token) if self._starter is not None else None

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`."""
        if job_id.startswith(PREFIX):
            self._end(job_id.removeprefix(PREFIX), plan)
        elif self._starter is not None:
            self._starter.cancel(job_id, plan)

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`."""
        if job_id.startswith(PREFIX):
            return self._streams(job_id.removeprefix(PREFIX))
        return self._starter.logs(job_id) if self._starter is not None else ()
