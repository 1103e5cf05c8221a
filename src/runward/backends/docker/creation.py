"""From a job's spec to the body of `POST /containers/create`; every mistake in its options at once."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from runward.backends.docker import client
from runward.core import durations, errors, job

_WORDS = (
    "image gpus volumes memory memory_swap shm_size cpus user network ipc workdir pass_env ulimits "
    "entrypoint init"
)
_OPTIONS = frozenset(f"docker.{word}" for word in _WORDS.split())
LIKE = "docker.like"
"""An option in place of all others: the body of a container that was made by somebody else (`like`)."""
_ALIKE = (
    "Image Env User WorkingDir Labels Volumes ExposedPorts StopSignal StopTimeout Healthcheck Tty OpenStdin "
    "Hostname Domainname"
)


def name_of(token: str) -> str:
    """A container name that the engine accepts, one for one token."""
    return re.sub(r"[^a-zA-Z0-9_.-]", "-", token).lstrip("_.-") or "runward"


def body(spec: job.JobSpec, token: str) -> dict[str, object]:
    """The engine's description of the container. Raises UsageError with every mistake in the options."""
    if LIKE in spec.options:
        return _another(json.loads(spec.options[LIKE]), spec, token)
    options = {key: value for key, value in spec.options.items() if key.startswith("docker.")}
    problems = [_unknown(key) for key in options if key not in _OPTIONS]
    if not options.get("docker.image"):
        problems.append(errors.Problem("docker.image is missing: which image shall be started?"))
    host = _host_config(options, problems)
    if problems:
        raise errors.UsageError(*problems)
    described: dict[str, object] = {
        "Image": options["docker.image"],
        "Cmd": list(spec.argv),
        "Env": _environment(spec, options),
        "Labels": {"runward.token": token},
        "HostConfig": host,
    }
    for key, name in (("docker.user", "User"), ("docker.workdir", "WorkingDir")):
        if key in options:
            described[name] = options[key]
    if "docker.entrypoint" in options:
        described["Entrypoint"] = shlex.split(options["docker.entrypoint"])
    return described


def _unknown(key: str) -> errors.Problem:
    if key == "docker.restart":
        return errors.Problem(f"no option {key!r}", next_step="Runward starts it again, by --policy.")
    close = errors.nearest(key, _OPTIONS)
    step = "" if close else f"Options: {_WORDS.removeprefix('image ')}."
    return errors.Problem(f"no option {key!r}", nearest=close, next_step=step)


def like(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The body of another container like the one that `GET /containers/ID/json` describes.

    Its volumes are shared, nameless ones too; what was written inside the container itself is not.
    """
    config, host = raw.get("Config") or {}, dict(raw.get("HostConfig") or {})
    bound = " ".join([*(host.get("Binds") or ()), *(m.get("Source", "") for m in host.get("Mounts") or ())])
    nameless = [
        f"{one['Name']}:{one['Destination']}"
        for one in raw.get("Mounts") or ()
        if one.get("Type") == "volume" and one["Name"] not in bound
    ]
    host["Binds"] = [*(host.get("Binds") or ()), *nameless]
    host.update(RestartPolicy={"Name": "no"}, AutoRemove=False, ContainerIDFile="")
    kept = {key: config[key] for key in _ALIKE.split() if config.get(key) is not None}
    if kept.get("Hostname") == str(raw.get("Id"))[:12]:
        del kept["Hostname"]
    return {**kept, "HostConfig": host}


def _another(kept: dict[str, Any], spec: job.JobSpec, token: str) -> dict[str, object]:
    """Another one of the kind, with the command and the token of this attempt."""
    ours = {key: value for key, value in spec.env.items() if key.startswith("RUNWARD_")}
    env = [pair for pair in kept.get("Env") or () if pair.partition("=")[0] not in ours]
    return {
        **kept,
        "Entrypoint": list(spec.argv[:1]),
        "Cmd": list(spec.argv[1:]),
        "Env": [*env, *(f"{key}={value}" for key, value in ours.items())],
        "Labels": {**(kept.get("Labels") or {}), "runward.token": token},
    }


def _environment(spec: job.JobSpec, options: Mapping[str, str]) -> list[str]:
    """Ours, and what the user named: the host's whole environment has no meaning inside an image."""
    named = {word.strip() for word in options.get("docker.pass_env", "").split(",")}
    return [f"{key}={value}" for key, value in spec.env.items() if key.startswith("RUNWARD_") or key in named]


def _host_config(options: Mapping[str, str], problems: list[errors.Problem]) -> dict[str, object]:
    host: dict[str, object] = {
        "RestartPolicy": {"Name": "no"},
        "NetworkMode": options.get("docker.network", "default"),
        "Init": options.get("docker.init", "true") == "true",
    }
    for key, name in (
        ("docker.memory", "Memory"),
        ("docker.memory_swap", "MemorySwap"),
        ("docker.shm_size", "ShmSize"),
    ):
        if key in options:
            host[name] = _size(key, options[key], problems)
    if "docker.cpus" in options:
        host["NanoCpus"] = _cpus(options["docker.cpus"], problems)
    if "docker.ipc" in options:
        host["IpcMode"] = options["docker.ipc"]
    if volumes := [v for v in options.get("docker.volumes", "").split(",") if v]:
        host["Binds"] = volumes
    if gpus := options.get("docker.gpus"):
        host["DeviceRequests"] = [_gpus(gpus)]
    if ulimits := options.get("docker.ulimits"):
        host["Ulimits"] = [limit for text in ulimits.split(",") if (limit := _ulimit(text, problems))]
    return host


def _size(key: str, text: str, problems: list[errors.Problem]) -> int:
    try:
        return durations.parse_size(text)
    except ValueError as error:
        problems.append(errors.Problem(str(error), where=key))
        return 0


def _cpus(text: str, problems: list[errors.Problem]) -> int:
    try:
        return int(float(text) * 1e9)
    except ValueError:
        problems.append(errors.Problem(f"{text!r} is no number of CPUs", where="docker.cpus"))
        return 0


def _gpus(text: str) -> dict[str, object]:
    request: dict[str, object] = {"Capabilities": [["gpu"]]}
    if text == "all":
        return {**request, "Count": -1}
    if text.isdigit():
        return {**request, "Count": int(text)}
    return {**request, "DeviceIDs": text.removeprefix("device=").split(",")}


def _ulimit(text: str, problems: list[errors.Problem]) -> dict[str, object] | None:
    match = re.fullmatch(r"([a-z]+)=(-?\d+)(?::(-?\d+))?", text.strip())
    if match is None:
        problems.append(errors.Problem(f"{text!r} is no ulimit: write memlock=-1", where="docker.ulimits"))
        return None
    return {"Name": match[1], "Soft": int(match[2]), "Hard": int(match[3] or match[2])}


class Trouble(errors.UsageError):
    """The engine answered with a fault of its own (5xx): also what is wrong for good, in older engines."""


def refused(error: client.EngineError, spec: job.JobSpec) -> errors.UsageError:
    """The engine's refusal to make a container, for a person."""
    image = spec.options.get("docker.image", "")
    step = f"Get it first: docker pull {image}" if "no such image" in error.message.lower() else ""
    kind = Trouble if error.status >= 500 else errors.UsageError
    return kind(errors.Problem(error.message, where="docker create", next_step=step))
