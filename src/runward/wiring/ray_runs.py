"""Ray jobs as runs: attached ones, and ones that are submitted."""

import json
import os
from collections.abc import Callable, Mapping, Sequence

from runward import ports
from runward.backends.ray import backend
from runward.core import checkpoints, effects, errors, job, observations, options, resume, shell_lines
from runward.store import folders
from runward.wiring import kept_runs, places, ray
from runward.wiring.place import Place

_GIVEN = "given:"
_LINE = "ray.entrypoint"
SPEC = "ray.json"
"""Entrypoint, runtime environment and resources of attempt 1, readable by the owner only."""


class _Attached:
    """A backend whose handles may be those of attached runs, `given:ID@URL`; may be told to keep its hands off."""

    name = "ray"

    def __init__(self, inner: backend.Ray, *, acts: bool) -> None:
        self._inner = inner
        self._acts = acts
        self._let_go: set[str] = set()

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`."""
        found = self._inner.poll([_job(one) for one in jobs])
        return {one: _LET_GO if one in self._let_go else found[_job(one)] for one in jobs}

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`."""
        return self._inner.submit(spec, token)

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`."""
        return self._inner.find(token)

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`; what is only observed is let go."""
        if self._acts:
            self._inner.cancel(_job(job_id), plan)
        else:
            self._let_go.add(job_id)

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`."""
        return self._inner.logs(_job(job_id))


_LET_GO = job.JobStatus(job.JobState.CANCELLED, "let go", job.ExitStatus.unseen())


def _job(handle: str) -> str:
    return handle.removeprefix(_GIVEN).partition("@")[0]


def place(asked: options.RunOptions, acts: bool = True) -> Place:
    """The place of a run on Ray; `asked.target` is `ray:ID@URL`, or empty for one that is submitted."""
    kept = folders.read(places.run_dir(asked.name), SPEC) or {}
    target = asked.target.removeprefix("ray:")
    origin, url = ray.split(target) if target else ("", str(kept.get("url") or ray.default_url()))
    every_s = asked.settings.ticks.ray_s
    one = ray.shared(url, every_s)
    return Place(
        backend=_Attached(one, acts=acts and not asked.observe_only),
        describe=lambda handle: observations.Launched(_job(handle), handle),
        spec_maker=lambda run, plan, _stdin: _spec_maker(run, plan, one, origin),
        tick_s=every_s,
    )


def _texts(value: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


_OPTIONS = {
    "--num-gpus": "ray.num_gpus",
    "--num-cpus": "ray.num_cpus",
    "--runtime-env-json": "ray.runtime_env",
    "--metadata-json": "ray.metadata",
}


def check(asked: options.RunOptions, extra: Sequence[str]) -> list[errors.Problem]:
    """What is wrong with the options of a submission, before anything is submitted."""
    del asked
    found = []
    for option in extra:
        word, _, value = option.partition("=")
        if word not in _OPTIONS:
            near = errors.nearest(word, _OPTIONS)
            found.append(errors.Problem(f"{word} is no option of a Ray job", "--place-arg", nearest=near))
        elif not _valid(word, value):
            found.append(errors.Problem(f"{value!r} cannot be the value of {word}", "--place-arg"))
    return found


def _valid(word: str, value: str) -> bool:
    try:
        return isinstance(json.loads(value), dict) if word.endswith("-json") else float(value) >= 0
    except ValueError:
        return False


def keep(name: str, extra: Sequence[str]) -> None:
    """Write down the cluster and the options of every attempt of a run."""
    body: dict[str, str] = {"url": ray.default_url()}
    for option in extra:
        word, _, value = option.partition("=")
        body[_OPTIONS[word]] = value
    folders.write(places.run_dir(name), SPEC, body)


def check_attached(target: str, resume_arg: str | None) -> None:
    """Whether the job of `ID@URL` can be begun again as was asked. Raises UsageError, NotFound, Unreachable."""
    origin, url = ray.split(target)
    try:
        line = str(_original(ray.cluster(url), origin)[_LINE])
    except ports.ContactLost as lost:
        raise errors.Unreachable(errors.Problem(str(lost), f"ray:{target}")) from lost
    how = resume.How(resume_arg)
    chosen = checkpoints.Checkpoint("/checkpoint", 0, 0.0, checkpoints.State.COMPLETE)
    if resume.mode_of((), how) is resume.Mode.ARG:
        shell_lines.tell(line, resume.plan((), how, chosen, checkpoints.Listing("/")).argv)


def _own_env(asked: options.RunOptions) -> dict[str, str]:
    """What `--env` set: a job of a cluster is not given the environment of the machine that submits it."""
    command = kept_runs.command_of(asked.name)
    given = command.get("env", {})
    return {str(k): str(v) for k, v in given.items() if os.environ.get(k) != v}


def _spec_maker(
    asked: options.RunOptions,
    plan: Callable[[effects.Launch], resume.ResumePlan],
    one: backend.Ray,
    origin: str,
) -> Callable[[effects.Launch], job.JobSpec]:
    """Attempt n is attempt 1 again, with what it resumes from; of an attached job, Ray knows how it was begun."""

    def make(launch: effects.Launch) -> job.JobSpec:
        folder = places.run_dir(asked.name)
        kept = folders.read(folder, SPEC)
        if kept is None:
            kept = _original(one, origin)
            folders.write(folder, SPEC, kept)
        if not origin and "env" not in kept:
            kept = {**kept, "env": _own_env(asked)}
            folders.write(folder, SPEC, kept)
        planned = plan(launch)
        given = {str(key): str(value) for key, value in kept.items() if key.startswith("ray.")}
        argv = planned.argv
        if line := given.get(_LINE):
            given[_LINE], argv = shell_lines.tell(line, argv), ()
        return job.JobSpec(
            argv=argv,
            cwd=asked.cwd,
            env={**_texts(kept.get("env")), **planned.env},
            options=given,
        )

    return make


def _original(one: backend.Ray, origin: str) -> dict[str, object]:
    found = one.details(origin) if origin else None
    if found is None:
        raise errors.NotFound(errors.Problem(f"Ray knows no job {origin} any more: it cannot be begun again"))
    known: dict[str, object] = {_LINE: str(found.get("entrypoint") or "")}
    for key in ("runtime_env", "metadata"):
        if found.get(key):
            known[f"ray.{key}"] = json.dumps(found[key])
    return known
