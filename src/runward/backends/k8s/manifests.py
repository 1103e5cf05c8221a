"""Manifests: what is kept of an object, how it is made anew, and what an attempt changes in it."""

import copy
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runward.core import errors, job, kubernetes_owners

Object = Mapping[str, Any]
MANIFEST = "k8s.manifest"
NAMESPACE = "k8s.namespace"
EXCLUDE = "k8s.exclude"
"""Nodes to stay away from, separated by commas."""
TOKEN = "runward.dev/token"  # noqa: S105 -- the annotation's name, no secret
_SERVER_META = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "selfLink",
        "ownerReferences",
        "finalizers",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
    }
)
_SERVER_LABELS = re.compile(
    r"(?:batch\.kubernetes\.io/)?(?:controller-uid|job-name)|batch\.kubernetes\.io/job-tracking|"
    r"kubectl\.kubernetes\.io/last-applied-configuration|jobset\.sigs\.k8s\.io/.*|pod-template-hash"
)
_POD_SPEC = ("nodeName", "restartPolicy", "terminationGracePeriodSeconds", "priorityClassName")


def without_rest(obj: Object) -> Object:
    """An object without what only the API server needs, to be kept in memory."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": meta}


def pod_without_rest(pod: Object) -> Object:
    """A pod with its names, states and conditions only: thousands are kept in memory."""
    spec, meta = pod.get("spec") or {}, pod["metadata"]
    names = [{"name": one.get("name")} for one in spec.get("containers") or ()]
    marks = {key: value for key, value in (meta.get("annotations") or {}).items() if key in _MARKS}
    kept = {key: meta[key] for key in _POD_META if key in meta}
    return {
        "metadata": {**kept, **({"annotations": marks} if marks else {})},
        "spec": {"containers": names, **{key: spec[key] for key in _POD_SPEC if key in spec}},
        "status": {key: value for key, value in (pod.get("status") or {}).items() if key in _POD_STATUS},
    }


_MARKS = frozenset({"kubectl.kubernetes.io/default-container", TOKEN})
_POD_META = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
)
_POD_STATUS = frozenset(
    {"phase", "reason", "message", "conditions", "containerStatuses", "initContainerStatuses"}
)


def anew(obj: Object) -> dict[str, Any]:
    """A manifest that makes another object like this one: without what the server and controllers have set."""
    made = copy.deepcopy({key: value for key, value in obj.items() if key != "status"})
    meta = {key: value for key, value in made["metadata"].items() if key not in _SERVER_META}
    for field in ("labels", "annotations"):
        kept = {k: v for k, v in (meta.get(field) or {}).items() if not _SERVER_LABELS.fullmatch(k)}
        meta[field] = kept
    made["metadata"] = meta
    kind = kubernetes_owners.kind_of(obj)
    match kind.word if kind is not None else "":
        case "job":
            _job_anew(made["spec"])
        case "pod":
            made["spec"].pop("nodeName", None)
            _without_token_mounts(made["spec"])
        case "rayjob":
            for key in ("jobId", "rayClusterName"):
                made["spec"].pop(key, None)
        case _:
            pass
    made["spec"].pop("suspend", None)
    return made


def _job_anew(spec: dict[str, Any]) -> None:
    """The selector and the labels that name the old Job are made by the server."""
    if not spec.pop("manualSelector", False):
        spec.pop("selector", None)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for key in [key for key in labels if _SERVER_LABELS.fullmatch(key)]:
        del labels[key]


def _without_token_mounts(spec: dict[str, Any]) -> None:
    """Admission adds a volume with the account's token to every pod: it is added again."""
    names = {
        one["name"]
        for one in spec.get("volumes") or ()
        if str(one.get("name")).startswith("kube-api-access-")
    }
    if names:
        spec["volumes"] = [one for one in spec["volumes"] if one["name"] not in names]
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            mounts = container.get("volumeMounts") or ()
            container["volumeMounts"] = [one for one in mounts if one.get("name") not in names]


def name_of(token: str) -> str:
    """The name of the object of a token: at most 50 characters, so that what is derived from it fits too."""
    plain = re.sub(r"[^a-z0-9]+", "-", token.lower()).strip("-")
    if plain == token and len(plain) <= 50:
        return plain
    digest = hashlib.sha256(token.encode()).hexdigest()[:8]
    return f"{plain[:41].strip('-')}-{digest}".strip("-")


def target_name(manifest: Object, token: str) -> str:
    """The name of the object of an attempt: that of the token, or its own where one object serves all attempts."""
    kind = kubernetes_owners.kind_of(manifest)
    scaled = kind is not None and kind.scaled
    return str(manifest["metadata"]["name"]) if scaled else name_of(token)


def take_over(wanted: dict[str, Any], made: Object) -> None:
    """Give the pods of `wanted` what an attempt adds: environment, nodes to stay away from, arguments. Everything else
    stays as it is now.
    """
    for theirs, ours in zip(templates(wanted), templates(made), strict=True):
        if ours.get("affinity"):
            theirs["affinity"] = ours["affinity"]
        known = {one["name"]: one for one in ours["containers"]}
        for container in theirs["containers"]:
            for key in ("env", "args"):
                if container["name"] in known and known[container["name"]].get(key):
                    container[key] = known[container["name"]][key]


def token_of(obj: Object) -> str:
    """The token that an object carries; empty for none."""
    return str(((obj.get("metadata") or {}).get("annotations") or {}).get(TOKEN) or "")


def from_spec(spec: job.JobSpec, token: str) -> tuple[str, dict[str, Any]]:
    """Namespace and manifest of an attempt. `spec.argv` are words to add to the command of its containers."""
    made: dict[str, Any] = json.loads(spec.options[MANIFEST])
    namespace = spec.options[NAMESPACE]
    meta = made.setdefault("metadata", {})
    meta.pop("generateName", None)
    meta["name"], meta["namespace"] = target_name(made, token), namespace
    meta["annotations"] = {**(meta.get("annotations") or {}), TOKEN: token}
    away = [node for node in spec.options.get(EXCLUDE, "").split(",") if node]
    for template in templates(made):
        _add_env(template, spec.env)
        if away:
            _stay_away(template, away)
    if spec.argv:
        _add_words(made, spec.argv)
    return namespace, made


def templates(obj: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The pod specs of a manifest."""
    kind, spec = kubernetes_owners.kind_of(obj), obj.get("spec") or {}
    match kind.word if kind is not None else "":
        case "pod":
            yield spec
        case "job" | "statefulset" | "deployment" | "replicaset":
            yield spec["template"]["spec"]
        case "jobset":
            for one in spec.get("replicatedJobs") or ():
                yield one["template"]["spec"]["template"]["spec"]
        case "rayjob":
            yield from _ray_templates(spec.get("rayClusterSpec") or {})
        case "raycluster":
            yield from _ray_templates(spec)
        case "pytorchjob":
            for one in (spec.get("pytorchReplicaSpecs") or {}).values():
                yield one["template"]["spec"]
        case _:
            return


def _ray_templates(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for one in (spec.get("headGroupSpec"), *(spec.get("workerGroupSpecs") or ())):
        if one:
            yield one["template"]["spec"]


def command_of(obj: Object) -> tuple[str, ...]:
    """The command of the first container; of a RayJob, its entrypoint as one word. Empty: that of the image."""
    kind = kubernetes_owners.kind_of(obj)
    if kind is not None and kind.word == "rayjob":
        words = (obj.get("spec") or {}).get("entrypoint")
        return (str(words),) if words else ()
    first: Object = next((one for spec in templates(obj) for one in spec.get("containers") or ()), {})
    return (*map(str, first.get("command") or ()), *map(str, first.get("args") or ()))


def _add_words(made: dict[str, Any], words: Sequence[str]) -> None:
    spec = made["spec"]
    if made.get("kind") == "RayJob":
        spec["entrypoint"] = f"{spec.get('entrypoint', '')} {shlex.join(words)}".strip()
        return
    for template in templates(made):
        container = template["containers"][0]
        if not container.get("command") and not container.get("args"):
            raise errors.UsageError(
                errors.Problem(
                    f"container {container.get('name')} has no command of its own to add {' '.join(words)} to",
                    "--resume-arg",
                    next_step="Use --resume-by env, or name the command in the manifest.",
                )
            )
        container["args"] = [*(container.get("args") or ()), *words]


def _add_env(template: dict[str, Any], env: Mapping[str, str]) -> None:
    for container in template.get("containers") or ():
        kept = [one for one in container.get("env") or () if one.get("name") not in env]
        container["env"] = [*kept, *({"name": key, "value": value} for key, value in env.items())]


def _stay_away(template: dict[str, Any], nodes: Sequence[str]) -> None:
    """Required node anti-affinity by the nodes' own names, in every term: terms are alternatives."""
    affinity = template.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms") or [{}]
    for term in terms:
        fields = term.setdefault("matchFields", [])
        fields += [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    required["nodeSelectorTerms"] = terms
