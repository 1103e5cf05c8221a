"""Containers as runs: attached ones, and ones that are submitted. A restart is a new container of the same kind."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runward import ports
from runward.app import pulse
from runward.backends.docker import client, creation
from runward.core import containers, effects, errors, job, observations, options, resume
from runward.probes import kernel_log
from runward.runners import local
from runward.store import folders
from runward.wiring import docker, kept_runs, places
from runward.wiring.place import Place

KEPT = "docker.json"
"""Which engine, and how attempt 1 was made; readable by the owner only."""
_ENGINE = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONFIG")
_TRIES = 5
_LET_GO = job.JobStatus(job.JobState.CANCELLED, "let go", job.ExitStatus.unseen())


class _Backend:
    """The engine's backend for one run; keeps its hands off what is only observed."""

    name = "docker"

    def __init__(self, engine: docker.Docker, *, acts: bool) -> None:
        self._inner = engine.backend
        self._acts = acts
        self._troubles = 0
        self._let_go: set[str] = set()
        self.seen: dict[str, job.JobStatus] = {}

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`."""
        found = dict(self._inner.poll(jobs))
        for handle, status in found.items():
            if handle in self._let_go:
                found[handle] = _LET_GO
            elif isinstance(status, job.JobStatus):
                self.seen[handle] = status
                if status.state.final:
                    self._inner.ended(handle)
        return found

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`. A fault of the engine's own is tried again a few times: it may be over then."""
        try:
            begun = self._inner.submit(spec, token)
        except creation.Trouble as trouble:
            self._troubles += 1
            if self._troubles < _TRIES:
                raise ports.ContactLost(str(trouble)) from trouble
            raise
        self._troubles = 0
        return begun

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`."""
        return self._inner.find(token)

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`; what is only observed is let go."""
        if self._acts:
            self._inner.cancel(job_id, plan)
        else:
            self._let_go.add(job_id)

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`."""
        return self._inner.logs(job_id)


def engine_of(name: str) -> docker.Docker:
    """The engine of a run, as it was reached when the run was made."""
    kept = folders.read(places.run_dir(name), KEPT) or {}
    return docker.Docker({**os.environ, **kept["engine"]} if kept.get("engine") else None)


def place(asked: options.RunOptions, acts: bool = True) -> Place:
    """The place of a run that a Docker engine executes."""
    engine = engine_of(asked.name)
    backend = _Backend(engine, acts=acts and not asked.observe_only)
    return Place(
        backend=backend,
        describe=lambda handle: observations.Launched(handle[:12], handle),
        looks=lambda handle: pulse.Looks(lambda: _cpu_s(engine, handle)),
        suspended=lambda handle: _state(backend, handle) is job.JobState.SUSPENDED,
        witnesses=lambda handle, status: _kernel_witnesses(engine, handle, status),
        spec_maker=_spec_maker,
        facts=lambda _found: _facts(engine, backend),
        tick_s=asked.settings.ticks.docker_s,
    )


def _state(backend: _Backend, handle: str) -> job.JobState | None:
    status = backend.seen.get(handle)
    return status.state if status is not None else None


def _cpu_s(engine: docker.Docker, handle: str) -> float | None:
    if not engine.place.local:
        return None
    spent, _ = engine.groups.use(handle)
    return spent / 1e9 if spent is not None else None


def _kernel_witnesses(engine: docker.Docker, handle: str, status: job.JobStatus) -> tuple[job.Witness, ...]:
    """Kills by the kernel in the container's own cgroup since its start."""
    if not engine.place.local or status.state is job.JobState.SUCCEEDED:
        return ()
    begin = (status.started_at or 0.0) - 5.0
    return tuple(
        job.Witness("kernel", "oom_kill", record.text, record.at)
        for record in kernel_log.oom_records(kernel_log.read(local.Local()))
        if record.container == handle and (record.at is None or record.at >= begin)
    )


def _facts(engine: docker.Docker, backend: _Backend) -> Mapping[str, Any]:
    """The engine's own restart policy comes first: what it starts again is not started twice."""
    ended = [handle for handle, status in backend.seen.items() if status.state.final]
    try:
        seen = engine.backend.inspect(ended[-1]) if ended else None
    except ports.ContactLost:
        return {}
    who = restarted_by(seen) if seen is not None else None
    return {"suppressed_by": who} if who is not None else {}


def restarted_by(seen: containers.Container) -> str | None:
    """The engine, where its policy would start this container again; a policy that is used up does not."""
    match seen.restart_policy:
        case "always" | "unless-stopped":
            return f"Docker (restart policy {seen.restart_policy})"
        case "on-failure" if not seen.restart_limit or seen.restarts < seen.restart_limit:
            return "Docker (restart policy on-failure)"
        case _:
            return None


# -- how an attempt is started -------------------------------------------------------------------------------


def _spec_maker(
    asked: options.RunOptions, plan: Callable[[effects.Launch], resume.ResumePlan], stdin_fd: int | None
) -> Callable[[effects.Launch], job.JobSpec]:
    """Makes the container of an attempt: as the first one, with what it resumes from as the container sees it."""
    del stdin_fd

    def make(launch: effects.Launch) -> job.JobSpec:
        if asked.observe_only:
            raise errors.UsageError(f"{asked.name} is only observed: it cannot be started again")
        kept = folders.read(places.run_dir(asked.name), KEPT) or {}
        command = kept_runs.command_of(asked.name)
        chosen: dict[str, str] = dict(kept.get("options", {}))
        mounts = kept.get("mounts", [])
        planned = plan(launch)
        argv = tuple(word if word in asked.argv else _inside(word, mounts) for word in planned.argv)
        env = {key: _inside(value, mounts) for key, value in planned.env.items()}
        if asked.target == "":
            chosen["docker.image"], argv = argv[0], _command(argv)
            chosen["docker.pass_env"] = ",".join(
                [chosen.get("docker.pass_env", ""), *command.get("named", [])]
            )
        return job.JobSpec(argv, asked.cwd, {**command.get("env", {}), **env}, options=chosen)

    return make


def _inside(word: str, mounts: Sequence[Sequence[str]]) -> str:
    """A path of this machine as the container sees it."""
    for outside, inside in sorted(mounts, key=lambda pair: -len(pair[0])):
        if f"{outside.rstrip('/')}/" in word:
            return word.replace(f"{outside.rstrip('/')}/", f"{inside.rstrip('/')}/")
    return word


def _command(argv: Sequence[str]) -> tuple[str, ...]:
    """What follows the image, without the separator."""
    rest = tuple(argv[1:])
    return rest[1:] if rest[:1] == ("--",) else rest


def _engine_env() -> dict[str, str]:
    return {key: os.environ[key] for key in _ENGINE if key in os.environ}


# -- attaching -----------------------------------------------------------------------------------------------


def attach(target: str) -> tuple[str, tuple[str, ...]]:
    """Handle and command of a container. Raises NotFound, Unreachable."""
    engine = docker.Docker()
    try:
        seen = engine.named(target)
    finally:
        engine.close()
    return seen.id, seen.command


def keep_attached(name: str, container: str) -> None:
    """Write down which engine it lives in and how another one like it is made. Raises Unreachable."""
    engine = docker.Docker()
    try:
        raw = engine.engine.json(client.Request("GET", f"/containers/{container}/json"))
    except client.EngineError as error:
        kind = errors.NotFound if error.status == 404 else errors.Unreachable
        raise kind(errors.Problem(error.message, where=f"docker:{container[:12]}")) from error
    finally:
        engine.close()
    mounts = [[str(one["Source"]), str(one["Destination"])] for one in raw.get("Mounts") or ()]
    like = {creation.LIKE: json.dumps(creation.like(raw))}
    body = {"engine": _engine_env(), "options": like, "mounts": mounts}
    folders.write(places.run_dir(name), KEPT, body)


# -- submitting ----------------------------------------------------------------------------------------------


def check(asked: options.RunOptions, extra: Sequence[str]) -> list[errors.Problem]:
    """What is wrong with the image and its options before anything is started. Raises Unreachable."""
    found = [
        errors.Problem(f"{one!r} is not NAME=VALUE", "--place-arg", next_step="Write --place-arg memory=8g.")
        for one in extra
        if "=" not in one
    ]
    if asked.log is not None:
        step = "What a container prints is followed; put the file on a volume, and look at it there."
        found.append(errors.Problem("a container's run has one log", "--log", next_step=step))
    if "docker.image" in _options(extra):
        step = "Write runward submit --on docker IMAGE -- CMD."
        found.append(errors.Problem("the image is the first word", "--place-arg image", None, step))
        return found
    image = asked.argv[0]
    spec = job.JobSpec(_command(asked.argv), asked.cwd, options={**_options(extra), "docker.image": image})
    try:
        creation.body(spec, "check")
    except errors.UsageError as wrong:
        found += wrong.problems
    engine = docker.Docker()
    try:
        config = engine.engine.json(client.Request("GET", f"/images/{image}/json")).get("Config") or {}
        if not (
            spec.argv or config.get("Cmd") or config.get("Entrypoint") or "docker.entrypoint" in spec.options
        ):
            step = "Write runward submit --on docker IMAGE -- CMD."
            found.append(errors.Problem(f"{image} has no command of its own", "docker", next_step=step))
    except client.EngineError as error:
        step = f"Get it first: docker pull {image}" if error.status == 404 else ""
        found.append(errors.Problem(error.message, "docker", next_step=step))
    finally:
        engine.close()
    return found


def _options(extra: Sequence[str]) -> dict[str, str]:
    pairs = (one.partition("=") for one in extra if "=" in one)
    return {f"docker.{key.lstrip('-').replace('-', '_')}": value for key, _, value in pairs}


def keep(name: str, extra: Sequence[str]) -> None:
    """Write down the options of every container of a run."""
    chosen = _options(extra)
    volumes = [one.split(":") for one in chosen.get("docker.volumes", "").split(",") if ":" in one]
    body = {"engine": _engine_env(), "options": chosen, "mounts": [one[:2] for one in volumes]}
    folders.write(places.run_dir(name), KEPT, body)
