"""Kubernetes objects as runs: attached ones, and ones that are submitted from a manifest.

A restart makes another object like the first under a name of its own; the old one stays to be looked at.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runward import ports
from runward.backends.k8s import backend, manifests, targets
from runward.core import (
    context,
    effects,
    errors,
    job,
    kubernetes_owners,
    observations,
    options,
    resume,
)
from runward.store import folders
from runward.wiring import k8s, k8s_owners, kept_runs, nodes, places, pod_directory, pod_looks
from runward.wiring.place import Place

KEPT = "k8s.json"
"""How attempt 1 was made, and in which namespace; readable by the owner only."""
_GIVEN = "given:"
_LET_GO = job.JobStatus(job.JobState.CANCELLED, "let go", job.ExitStatus.unseen())
_MOST_BYTES = 4 << 20


class _Run:
    """The cluster's backend for one run; keeps its hands off what is only observed."""

    name = "k8s"

    def __init__(self, cluster: backend.Cluster, run: str, *, acts: bool) -> None:
        self._cluster, self._run, self._acts = cluster, run, acts
        self._let_go: set[str] = set()
        self._latest = ""

    def a_pod(self) -> ports.Runner:
        """The way into a pod of the attempt that was looked at last. Raises ContactLost."""
        pod = self._cluster.running(_job(self._latest)) if self._latest else None
        if pod is None:
            raise ports.ContactLost(f"{self._run}: no pod of it runs that could be looked into")
        return pod_looks.named(pod)

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`."""
        self._latest = jobs[-1] if jobs else self._latest
        found = self._cluster.poll([_job(one) for one in jobs])
        return {one: _LET_GO if one in self._let_go else found[_job(one)] for one in jobs}

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`. What the cluster refuses was not started: `find` will say so."""
        try:
            return self._cluster.submit(spec, token)
        except errors.UsageError as refused:
            raise ports.ContactLost(str(refused)) from refused

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`."""
        kept = _kept(self._run)
        return self._cluster.find_in(str(kept["namespace"]), kept["manifest"], token)

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`; what is only observed is let go."""
        if self._acts:
            self._cluster.cancel(_job(job_id), plan)
        else:
            self._let_go.add(job_id)

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`."""
        return self._cluster.logs(_job(job_id))


def _job(handle: str) -> str:
    return handle.removeprefix(_GIVEN)


def _kept(name: str) -> Mapping[str, Any]:
    kept = folders.read(places.run_dir(name), KEPT)
    if kept is None:
        raise ports.ContactLost(f"{name}: {KEPT} is gone, so that it is not known how it was begun")
    return kept


def place(asked: options.RunOptions, acts: bool = True) -> Place:
    """The place of a run that a cluster executes. Raises UsageError when there is no way to one."""
    cluster = k8s.cluster()
    one = _Run(cluster, asked.name, acts=acts and not asked.observe_only)
    elsewhere = asked.checkpoints is not None and not os.path.isdir(asked.checkpoints)
    return Place(
        backend=one,
        directory=(lambda: pod_directory.of(asked.checkpoints, one.a_pod)) if elsewhere else None,
        describe=lambda handle: observations.Launched(_job(handle).partition("@")[0], handle),
        wait_fds=lambda handle: cluster.wake_fds(_job(handle)),
        stirred=lambda handle: cluster.stirred(_job(handle)),
        prepare=lambda handle: cluster.ask_for_logs(_job(handle)),
        witnesses=lambda _handle, status: k8s.node_facts(cluster, status)[0],
        texts=lambda handle, status: _texts(cluster, handle, status),
        spec_maker=_spec_maker,
        facts=lambda _found: {"can_elsewhere": _can_elsewhere(asked)},
        tick_s=asked.settings.ticks.k8s_s,
    )


def _texts(cluster: backend.Cluster, handle: str, status: job.JobStatus) -> tuple[context.Text, ...]:
    if status.state is job.JobState.SUCCEEDED:
        return ()
    said = [status.reason, *cluster.warnings(targets.parse(_job(handle)))]
    _, words = k8s.node_facts(cluster, status)
    found = [context.Text("k8s", text) for text in said if text]
    return tuple((found + [context.Text("node", text) for text in words])[:64])


def _can_elsewhere(asked: options.RunOptions) -> bool:
    """Whether the manifest has pod templates that a node can be kept out of."""
    kept = folders.read(places.run_dir(asked.name), KEPT)
    return kept is not None and any(True for _ in manifests.templates(kept["manifest"]))


def _spec_maker(
    asked: options.RunOptions, plan: Callable[[effects.Launch], resume.ResumePlan], stdin_fd: int | None
) -> Callable[[effects.Launch], job.JobSpec]:
    """Makes the object of an attempt: the first one's manifest, what it resumes from, nodes to stay away from."""
    del stdin_fd

    def make(launch: effects.Launch) -> job.JobSpec:
        if asked.observe_only:
            raise errors.UsageError(f"{asked.name} is only observed: it cannot be started again")
        kept = _kept(asked.name)
        planned = plan(launch)
        if planned.argv[: len(asked.argv)] != asked.argv:
            raise errors.UsageError(
                f"{asked.name}: --resume-arg changes the command itself; a manifest's can only be added to"
            )
        given = {**kept.get("env", {}), **_named(asked.name), **planned.env}
        found = {
            manifests.MANIFEST: json.dumps(kept["manifest"]),
            manifests.NAMESPACE: str(kept["namespace"]),
            manifests.EXCLUDE: ",".join(_excluded(launch)),
        }
        return job.JobSpec(planned.argv[len(asked.argv) :], asked.cwd, given, options=found)

    return make


def _named(name: str) -> dict[str, str]:
    """What `--env` set."""
    command = kept_runs.command_of(name)
    return {key: str(command.get("env", {}).get(key, "")) for key in command.get("named", [])}


def _excluded(launch: effects.Launch) -> Sequence[str]:
    found = {launch.exclude_node: None} if launch.exclude_node else {}
    if launch.attempt > 1:
        found.update(dict.fromkeys(nodes.proposed()))
    return tuple(found)


# -- attaching -----------------------------------------------------------------------------------------------


def attach(target: str, *, act: bool) -> tuple[str, tuple[str, ...], str]:
    """Handle, command and target of what is in the cluster now. Raises NotFound, Unreachable, UsageError."""
    one, parsed = k8s.pods(), targets.parse(target)
    k8s.seen(one, target)
    found = k8s.found(one, parsed)
    if act:
        try:
            parsed, found = k8s_owners.handed_over(one, parsed, found)
        except ports.ContactLost as lost:
            raise errors.Unreachable(errors.Problem(str(lost), f"k8s:{target}")) from lost
    return f"{_GIVEN}{parsed.of(found).handle}", manifests.command_of(_whole(parsed, found)), f"k8s:{parsed}"


def keep_attached(name: str, target: str) -> None:
    """Write down how another one like it is made, or it is begun again. Raises Unreachable."""
    parsed = targets.parse(target)
    whole = _whole(parsed, k8s.found(k8s.pods(), parsed))
    folders.write(
        places.run_dir(name), KEPT, {"manifest": manifests.anew(whole), "namespace": parsed.namespace}
    )


def _whole(target: targets.Target, found: Mapping[str, Any]) -> dict[str, Any]:
    """With the words of its kind, whatever the server left out."""
    return {"apiVersion": target.kind.api, "kind": target.kind.kind, **found}


# -- submitting ----------------------------------------------------------------------------------------------


def check(asked: options.RunOptions, extra: Sequence[str]) -> list[errors.Problem]:
    """What is wrong with the manifest and its options before anything is made."""
    found = [
        errors.Problem(
            f"{one!r} is no option of a manifest", "--place-arg", next_step="There is namespace=NAME."
        )
        for one in extra
        if one.partition("=")[0].lstrip("-") != "namespace"
    ]
    if len(asked.argv) > 1:
        found.append(errors.Problem(f"{asked.argv[1]!r} follows the manifest", "runward submit"))
    try:
        read_manifest(os.path.join(asked.cwd, asked.argv[0]))
        k8s.transport()
    except errors.UsageError as wrong:
        found += wrong.problems
    return found


def read_manifest(path: str) -> dict[str, Any]:
    """The one object of a YAML or JSON file. Raises UsageError."""
    import yaml

    try:
        with open(path, "rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise errors.UsageError(errors.Problem(f"{path} is larger than 4 MiB"))
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
    except (OSError, yaml.YAMLError, RecursionError) as error:
        raise errors.UsageError(errors.Problem(f"no manifest: {error}"[:400], path)) from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        step = "Apply what belongs to it (volumes, services) first: a run is one object."
        raise errors.UsageError(errors.Problem(f"{len(documents)} objects in {path}", path, next_step=step))
    return _checked(documents[0], path)


def _checked(manifest: dict[str, Any], path: str) -> dict[str, Any]:
    kind = kubernetes_owners.kind_of(manifest)
    if kind is None or kind.word == "raycluster" or kind.scaled:
        every = kubernetes_owners.KINDS.values()
        known = ", ".join(one.kind for one in every if one.word != "raycluster" and not one.scaled)
        what = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
        raise errors.UsageError(errors.Problem(f"{what} is no kind that can be submitted: {known}", path))
    try:
        found = [
            container["name"] for spec in manifests.templates(manifest) for container in spec["containers"]
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise errors.UsageError(
            errors.Problem(f"its pod template is not complete: {error!r}", path)
        ) from error
    if not found and kind.word != "trainjob":
        raise errors.UsageError(errors.Problem("it has no container", path))
    return manifest


def keep(name: str, extra: Sequence[str]) -> None:
    """Write down the manifest of every attempt of a run: later changes of the file change nothing."""
    kept = folders.read(places.run_dir(name), folders.OPTIONS) or {}
    manifest = read_manifest(os.path.join(kept["cwd"], kept["argv"][0]))
    meta = manifest.setdefault("metadata", {})
    given = [one.partition("=")[2] for one in extra]
    namespace = given[-1] if given else str(meta.get("namespace") or "default")
    folders.write(places.run_dir(name), KEPT, {"manifest": manifests.anew(manifest), "namespace": namespace})
