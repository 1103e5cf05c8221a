"""Jobs of one Ray cluster as a `ports.Backend`.

A job carries its token as its submission id, so that one that may or may not have begun can always be found.
"""

import json
import shlex
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runward import ports
from runward.backends import asking
from runward.backends.ray import client, logs, states
from runward.core import errors, job

_MANY = 2
"""From so many jobs on, one list is asked for instead of each."""


_ACTORS_GO_S = 60.0
"""Ray ends the actors of an ended driver a little later; those that live on after this are told as left over."""


_NODE_TOLD_S = 45.0
"""Ray notices a dead node by missing heartbeats; a job that lost a worker is judged after this, or when Ray does."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a cluster is asked."""

    every_s: float = 0.0
    """A list of all jobs serves every poll for so long."""
    anew_s: float = 120.0
    """A head that was started anew must have stood for so long, not knowing the job, before the job is over: drivers
    and workers of the old one give up after 60 s (`RAY_gcs_rpc_server_reconnect_timeout_s`)."""


_SOON_S, _OLD_LISTS = 0.3, 3.0
"""How long a list is waited for while the one before is younger than so many of its periods."""


class Ray:
    """One cluster, by its dashboard; runs of one process share it."""

    name = "ray"

    def __init__(self, dashboard: client.Dashboard, settings: Settings | None = None) -> None:
        self.dashboard = dashboard
        self.settings = settings or Settings()
        self._listed: tuple[float, dict[str, Mapping[str, Any] | None]] | None = None
        self._asking: asking.Asking[dict[str, Mapping[str, Any] | None]] | None = None
        self._wanted: dict[str, float] = {}
        self._known: dict[str, job.JobStatus] = {}
        self._anew: dict[str, float] = {}
        self._streams: dict[str, list[weakref.ref[logs.Follower]]] = {}
        self._over: set[str] = set()

    def details(self, job_id: str) -> Mapping[str, Any] | None:
        """What Ray knows of a job; None when it knows no such job. Raises ContactLost."""
        try:
            found = self.dashboard.json(client.Request("GET", f"/api/jobs/{job_id}"))
        except client.Refused as refused:
            if states.denies(refused.status, refused.message):
                return None
            raise ports.ContactLost(f"{self.dashboard.url}: {refused}") from refused
        if not isinstance(found, dict):
            raise ports.ContactLost(f"{self.dashboard.url}: no job in the answer")
        return found

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`. An id that the head does not know says nothing: it forgets when it restarts."""
        now = time.time()
        try:
            found = self._found(jobs)
            return {one: self._status(found.get(one), one, now) for one in jobs}
        except ports.ContactLost as lost:
            return dict.fromkeys(jobs, job.Unseen(str(lost), now))

    def _found(self, jobs: Sequence[str]) -> Mapping[str, Mapping[str, Any] | None]:
        """What Ray knows of these: by one question each while they are few, else from the newest list of all."""
        now = time.monotonic()
        for one in jobs:
            self._wanted[one] = now
        if len(self._wanted) < _MANY:
            return {one: self.details(one) for one in jobs}
        if self._listed is None or now - self._listed[0] >= self.settings.every_s:
            recent = now - max(self.settings.every_s, 1.0) * 3
            self._wanted = {one: at for one, at in self._wanted.items() if at >= recent}
            self._list_anew(now)
        return self._listed[1] if self._listed is not None else {}

    def _list_anew(self, now: float) -> None:
        """The newest list. One that takes long is not waited for while the one before will do: other runs of this
        process wait as well. Raises ContactLost.
        """
        asked = self._asking = self._asking or asking.Asking("list of Ray's jobs", self._all)
        kept = self._listed is not None and now - self._listed[0] < _OLD_LISTS * self.settings.every_s
        if not asked.ready(asked.began + _SOON_S - now if kept else None):
            return
        self._asking = None
        self._listed = (asked.began, asked.answer())

    def _all(self) -> dict[str, Mapping[str, Any] | None]:
        found = self._list("/api/jobs/")
        return {str(one.get("submission_id") or one.get("job_id")): one for one in found}

    def _status(
        self, details: Mapping[str, Any] | None, job_id: str, now: float
    ) -> job.JobStatus | job.Unseen:
        if details is None:
            return self._forgotten(job_id, now)
        self._anew.pop(job_id, None)
        seen = states.status(details)
        if seen is None:
            return job.Unseen(f"Ray calls the job {details.get('status')!r}", now)
        self._known[job_id] = seen
        if not seen.state.final:
            return seen
        self._ended(job_id)
        ago = now - (seen.ended_at or now)
        may_come = states.lost_somebody(details) and ago < _NODE_TOLD_S
        try:
            actors = self.actors(str(details.get("job_id") or ""))
            full = states.status(details, self.nodes(), actors) or seen
        except ports.ContactLost:
            return seen._replace(state=job.JobState.ENDING) if may_come else seen
        may_come = may_come and full.state is not job.JobState.NODE_FAILED and not full.witnesses
        if (full.left and ago < _ACTORS_GO_S) or may_come:
            return full._replace(state=job.JobState.ENDING, left=())
        return full

    def _forgotten(self, job_id: str, now: float) -> job.JobStatus | job.Unseen:
        """A job that was known, and is not: over only when its head was started anew and has stood for long enough,
        and no node of the cluster is older than that head.
        """
        unseen = job.Unseen(f"Ray knows no job {job_id} (a head that was restarted forgets its jobs)", now)
        before = self._known.get(job_id)
        if before is None or before.started_at is None or before.state.final:
            return unseen
        head = states.head_since(self.nodes())
        if head is None or head <= before.started_at:
            self._anew.pop(job_id, None)
            return unseen
        since = self._anew.setdefault(job_id, time.monotonic())
        left = self.settings.anew_s - (time.monotonic() - since)
        if left > 0:
            why = f"{unseen.why}; this head began after it, and is given {left:.0f} s more to hear of it"
            return job.Unseen(why, now)
        self._ended(job_id)
        return states.gone_with_its_head(before, head, now)

    def nodes(self) -> list[Mapping[str, Any]]:
        """All nodes, dead ones too. Raises ContactLost."""
        return self._state("nodes", ())

    def actors(self, ray_job: str) -> list[Mapping[str, Any]]:
        """Actors of a job by Ray's own hexadecimal id; none without one. Raises ContactLost."""
        if not ray_job:
            return []
        return self._state("actors", (("filter_keys", "job_id"), ("filter_values", ray_job)))

    def _state(self, what: str, filters: Sequence[tuple[str, str]]) -> list[Mapping[str, Any]]:
        query: dict[str, object] = {"limit": 1000, "detail": "true", **dict(filters)}
        if filters:
            query["filter_predicates"] = "="
        try:
            found = self.dashboard.json(client.Request("GET", f"/api/v0/{what}", query))
        except client.Refused as refused:
            raise ports.ContactLost(f"{self.dashboard.url}: {what}: {refused}") from refused
        for key in ("data", "result", "result"):
            found = found.get(key) if isinstance(found, dict) else None
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def _list(self, path: str) -> list[Mapping[str, Any]]:
        try:
            found = self.dashboard.json(client.Request("GET", path))
        except client.Refused as refused:
            raise ports.ContactLost(f"{self.dashboard.url}: {refused}") from refused
        if not isinstance(found, list):
            raise ports.ContactLost(f"{self.dashboard.url}: no list in the answer")
        return [one for one in found if isinstance(one, dict)]

    def usage(self) -> dict[str, dict[str, float]] | None:
        """GPUs and CPUs, allocated and in all; None when Ray does not say it. Raises ContactLost."""
        try:
            found = self.dashboard.json(client.Request("GET", "/api/cluster_status"))
        except client.Refused as refused:
            raise ports.ContactLost(f"{self.dashboard.url}: {refused}") from refused
        for key in ("data", "clusterStatus", "loadMetricsReport", "usage"):
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            return None
        pairs = {"gpus": found.get("GPU") or [0.0, 0.0], "cpus": found.get("CPU") or [0.0, 0.0]}
        return {name: {"used": float(pair[0]), "total": float(pair[1])} for name, pair in pairs.items()}

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`. Options: `ray.entrypoint`, `ray.runtime_env` (JSON), `ray.num_gpus`, ..."""
        self.start(body_of(spec, token))
        return token

    def start(self, body: Mapping[str, object]) -> str:
        """Begin a job; its submission id. Raises UsageError when Ray refuses it, ContactLost when it is unsure."""
        try:
            self._listed = self._asking = None
            found = self.dashboard.json(client.Request("POST", "/api/jobs/", body=body, deadline_s=120.0))
        except client.Refused as refused:
            wanted = str(body.get("submission_id") or "")
            if wanted and self.details(wanted) is not None:
                return wanted
            if refused.status >= 500:  # e.g. no agent yet, right after the head's start
                raise ports.ContactLost(f"{self.dashboard.url}: {refused}") from refused
            raise errors.UsageError(errors.Problem(f"Ray refused the job: {refused}")) from refused
        given = found.get("submission_id") or found.get("job_id") if isinstance(found, dict) else None
        if not given:
            raise ports.ContactLost(f"{self.dashboard.url}: no id in the answer to a submission")
        return str(given)

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`."""
        return token if self.details(token) is not None else None

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`. Ray asks with SIGTERM and insists after its own few seconds."""
        del plan
        self._listed = self._asking = None
        try:
            answer = self.dashboard.json(client.Request("POST", f"/api/jobs/{job_id}/stop"))
            if not isinstance(answer, dict):
                raise ports.ContactLost(f"{self.dashboard.url}: stop: no word of Ray in the answer")
        except client.Refused as refused:
            seen = self.details(job_id)
            if seen is not None and str(seen.get("status")) not in {"SUCCEEDED", "FAILED", "STOPPED"}:
                raise ports.ContactLost(f"{self.dashboard.url}: stop: {refused}") from refused

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`: the driver's, to which Ray adds what its workers print.

        Each call gives a reader of its own, from the log's beginning.
        """
        stream = logs.Follower(self.dashboard, job_id)
        stream.over = job_id in self._over
        kept = self._streams.setdefault(job_id, [])
        kept.append(weakref.ref(stream))
        kept[:] = [one for one in kept if one() is not None]
        return [stream]

    def _ended(self, job_id: str) -> None:
        self._over.add(job_id)
        for one in self._streams.get(job_id, ()):
            stream = one()
            if stream is not None:
                stream.over = True

    def whole_log(self, job_id: str) -> str:
        """Everything that the driver printed. Raises NotFound, ContactLost."""
        try:
            found = self.dashboard.json(client.Request("GET", f"/api/jobs/{job_id}/logs", deadline_s=60.0))
        except client.Refused as refused:
            if states.denies(refused.status, refused.message):
                raise errors.NotFound(errors.Problem(refused.message, f"ray:{job_id}")) from refused
            raise ports.ContactLost(f"{self.dashboard.url}: {refused}") from refused
        text = found.get("logs") if isinstance(found, dict) else None
        return text if isinstance(text, str) else ""


def body_of(spec: job.JobSpec, token: str) -> dict[str, object]:
    """The body of a submission. The entrypoint is a shell line by Ray's own rule: every word is quoted for it."""
    given = spec.options
    env_of_job = json.loads(given.get("ray.runtime_env") or "{}")
    variables = {**(env_of_job.get("env_vars") or {}), **spec.env}
    if variables:
        env_of_job["env_vars"] = {key: str(value) for key, value in variables.items()}
    words = " ".join(part for part in (given.get("ray.entrypoint", ""), shlex.join(spec.argv)) if part)
    body: dict[str, object] = {"entrypoint": words, "submission_id": token, "runtime_env": env_of_job}
    body["metadata"] = {**json.loads(given.get("ray.metadata") or "{}"), "runward": token}
    for ours, theirs in (("ray.num_cpus", "entrypoint_num_cpus"), ("ray.num_gpus", "entrypoint_num_gpus")):
        if ours in given:
            body[theirs] = float(given[ours])
    return body
