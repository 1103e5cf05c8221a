"""`run --on pod:NAMESPACE/POD/`: run and watcher are here, attempts are commands under a keeper there."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runward import ports
from runward.app import pulse
from runward.backends.pod import backend
from runward.core import checkpoints, effects, errors, job, observations, options, resume
from runward.store import folders
from runward.wiring import k8s, kept_runs, places, pod_directory, pod_looks, processes
from runward.wiring.place import Place

KEPT = "pod.json"
_PLACE = re.compile(r"pod:((?:[^/]+/)?[^/]+)/?")
_NO = {"tty": "--tty", "log_dir": "--log-dir", "split": "--split", "heartbeat": "--heartbeat"}
_NO_MORE = {
    "take_over": "--take-over",
    "gpu_idle_after": "--gpu-idle-after",
    "hash_checkpoints": "--hash-checkpoints",
}


def pod_of(place: str) -> str:
    """`NAMESPACE/POD` of `pod:NAMESPACE/POD/`. Raises UsageError."""
    found = _PLACE.fullmatch(place)
    if found is None:
        step = "Write pod:NAMESPACE/POD/."
        raise errors.UsageError(errors.Problem(f"{place!r} names no pod", "--on", next_step=step))
    return found[1]


def launch(place: str, command: tuple[str, ...], given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """`runward run --on pod:...`; the exit code. Raises UsageError, Unreachable."""
    from runward.wiring import submitting

    refused = ["--quarantine"] if given["quarantine"] == "rename" else []
    refused += [word for key, word in {**_NO, **_NO_MORE}.items() if given[key]]
    if refused:
        raise errors.UsageError(
            *(errors.Problem("has no meaning for a command in a pod", word) for word in refused)
        )
    extra = (f"cwd={given['cwd']}",) if given["cwd"] else ()
    more = {"cwd": None, "extra": extra, "restart_by": None, "log": None, "monitoring": None}
    target = f"pod:{pod_of(place)}/"
    return submitting.submit(command, {**given, **more, "place": "pod", "target": target}, environ)


def check(asked: options.RunOptions, extra: Sequence[str]) -> list[errors.Problem]:
    """What is wrong before anything is started: no way into the pod, no python3 in it."""
    found = [
        errors.Problem(f"{one!r} has no meaning for a pod", "--place-arg")
        for one in extra
        if not one.startswith("cwd=")
    ]
    runner = pod_looks.named(pod_of(asked.target))
    try:
        done = runner.run(
            ports.Call(("python3", "-c", "import sys; print(sys.version_info >= (3, 9))"), deadline_s=60.0)
        )
    except ports.ContactLost as lost:
        raise errors.Unreachable(errors.Problem(str(lost), asked.target)) from lost
    if done.text.strip() != "True":
        words = done.stderr.decode("utf-8", "replace").strip()[-200:] or done.text.strip()[:80]
        found.append(errors.Problem(f"no python3 of 3.9 or newer in the pod: {words}", asked.target))
    return found


def keep(name: str, extra: Sequence[str]) -> None:
    """Write down in which directory of the pod every attempt begins; empty: that of the container."""
    cwd = next((one.removeprefix("cwd=") for one in extra), "")
    folders.write(places.run_dir(name), KEPT, {"cwd": cwd})


def look(asked: options.RunOptions) -> checkpoints.Listing | None:
    """The checkpoint directory as the pod sees it now. Raises Unreachable."""
    if asked.checkpoints is None:
        return None
    try:
        return pod_looks.checkpoints_in(pod_looks.named(pod_of(asked.target)), asked.checkpoints)
    except ports.ContactLost as lost:
        raise errors.Unreachable(errors.Problem(str(lost), "--checkpoints")) from lost


def place(asked: options.RunOptions) -> Place:
    """The place of a run whose attempts are commands in a pod."""
    pod = pod_of(asked.target)
    runner = pod_looks.named(pod)
    one = backend.Pod(runner, lambda seen: k8s.ended_with(pod, seen))
    return Place(
        backend=one,
        describe=lambda handle: observations.Launched(handle.partition("@")[0], handle),
        looks=lambda handle: pulse.Looks(lambda: one.cpu_s(handle)),
        suspended=lambda handle: one.state(handle) in {"T", "t"},
        spec_maker=_spec_maker,
        directory=lambda: pod_directory.of(asked.checkpoints, lambda: runner),
        tick_s=min(5.0, asked.settings.ticks.k8s_s),
    )


def _spec_maker(
    asked: options.RunOptions, plan: Callable[[effects.Launch], resume.ResumePlan], stdin_fd: int | None
) -> Callable[[effects.Launch], job.JobSpec]:
    del stdin_fd

    def make(launch: effects.Launch) -> job.JobSpec:
        kept = kept_runs.command_of(asked.name)
        planned = plan(launch)
        named = {str(key): str(kept.get("env", {}).get(key, "")) for key in kept.get("named", ())}
        run = asked.settings.run
        numbers = {
            "grace_s": run.grace_s,
            "stop_signal": processes.signum_of(run.stop_signal),
            "term_wait_s": run.rest_grace_s,
        }
        return job.JobSpec(
            argv=planned.argv,
            cwd=str((folders.read(places.run_dir(asked.name), KEPT) or {}).get("cwd") or ""),
            env={"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", **named, **planned.env},
            options={key: str(value) for key, value in numbers.items()},
        )

    return make
