"""The objects of an emulated cluster, their versions, and who watches them. All methods may be called by any thread."""

import copy
import re
import threading
import time
import uuid
from collections import deque
from dataclasses import dataclass, field

PLURALS = {
    "Pod": ("", "v1", "pods"),
    "Node": ("", "v1", "nodes"),
    "Event": ("", "v1", "events"),
    "Namespace": ("", "v1", "namespaces"),
    "Job": ("batch", "v1", "jobs"),
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    "RayJob": ("ray.io", "v1", "rayjobs"),
    "RayCluster": ("ray.io", "v1", "rayclusters"),
    "PyTorchJob": ("kubeflow.org", "v1", "pytorchjobs"),
    "TrainJob": ("trainer.kubeflow.org", "v1alpha1", "trainjobs"),
    "StatefulSet": ("apps", "v1", "statefulsets"),
    "Deployment": ("apps", "v1", "deployments"),
    "ReplicaSet": ("apps", "v1", "replicasets"),
}
SCALED = frozenset({"StatefulSet", "Deployment", "ReplicaSet"})
CLUSTER_WIDE = frozenset({"nodes", "namespaces"})


@dataclass
class Fault:
    """What goes wrong with requests whose `METHOD PATH?QUERY` matches."""

    match: str
    kind: str
    """`429`, `500`, `401`, `403`, `html`, `slow`, `drop`, `gone` (a watch's ERROR 410), `silent` (a watch that says
    nothing), `cut` (a watch that ends at once), `lost` (made, and the answer does not come)."""
    times: int = 1
    seconds: float = 0.0

    def hits(self, line: str) -> bool:
        if self.times <= 0 or not re.search(self.match, line):
            return False
        self.times -= 1
        return True


class Refused(Exception):
    """A Status of the API server."""

    def __init__(self, code, reason, message):
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


@dataclass
class Cluster:
    objects: dict = field(default_factory=dict)
    """(group, plural) -> (namespace, name) -> object."""
    logs: dict = field(default_factory=dict)
    """(namespace, pod, container, whether it is the previous one) -> bytes."""
    faults: list = field(default_factory=list)
    calls: list = field(default_factory=list)
    """(verb, group, resource/subresource)."""
    rules: list | None = None
    """RBAC: rules of a Role or ClusterRole; None allows everything."""
    absent: set = field(default_factory=set)
    """Groups whose CRD is not installed."""
    token: str | None = None
    runs_jobs: bool = False
    """Whether a job-like object that is made gets a pod at once, and loses it when it is deleted."""
    lingers: bool = False
    """Whether deleted pods stay Terminating until `finish_delete`."""

    def __post_init__(self):
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.version = 1000
        self.oldest = 1000
        self.history = deque(maxlen=20000)
        self.cuts = 0
        self.going = set()
        self.bookmarked = 0

    # -- what tests do ---------------------------------------------------------------------------------------

    def put(self, obj):
        """Make or replace an object; returns it as served."""
        with self.lock:
            obj = copy.deepcopy(obj)
            group, version, plural = PLURALS[obj["kind"]]
            obj.setdefault("apiVersion", f"{group}/{version}" if group else version)
            meta = obj.setdefault("metadata", {})
            if plural not in CLUSTER_WIDE:
                meta.setdefault("namespace", "ml")
            key = (meta.get("namespace", ""), meta["name"])
            table = self.objects.setdefault((group, plural), {})
            before = table.get(key)
            meta.setdefault("uid", before["metadata"]["uid"] if before else str(uuid.uuid4()))
            meta.setdefault("creationTimestamp", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            self._write(group, plural, "MODIFIED" if before else "ADDED", obj)
            table[key] = obj
            return copy.deepcopy(obj)

    def replace(self, group, plural, namespace, obj):
        """What PUT does: refused when the object is another by now."""
        with self.lock:
            found = self.objects[group, plural][namespace, obj["metadata"]["name"]]
            said = obj["metadata"].get("resourceVersion")
            if said and said != found["metadata"]["resourceVersion"]:
                raise Refused(409, "Conflict", "the object has been modified")
            made = self.put(obj)
            self.reconcile(made)
            return made

    def reconcile(self, owner):
        """What the controllers of SCALED do: as many pods as `replicas` says, those of a StatefulSet by name, those of
        the others as soon as one is ending."""
        if not self.runs_jobs or owner["kind"] not in SCALED or owner["metadata"]["uid"] in self.going:
            return
        meta, wanted = owner["metadata"], owner["spec"]["replicas"]
        mine = [
            pod
            for pod in self.every("Pod")
            if any(one["uid"] == meta["uid"] for one in pod["metadata"].get("ownerReferences", ()))
        ]
        by_name = owner["kind"] == "StatefulSet"
        standing = [p for p in mine if by_name or "deletionTimestamp" not in p["metadata"]]
        for pod in standing[wanted:]:
            self._take_away(pod)
        taken = {pod["metadata"]["name"] for pod in mine}
        names = [f"{meta['name']}-{n if by_name else uuid.uuid4().hex[:5]}" for n in range(wanted)]
        for name in [name for name in names if name not in taken][: max(0, wanted - len(standing))]:
            self._pod_for(owner, name)

    def _owners_react(self, pod):
        for ref in pod["metadata"].get("ownerReferences", ()):
            owner = self.named(ref["kind"], ref["name"], pod["metadata"]["namespace"])
            if owner is not None:
                self.reconcile(owner)

    def _take_away(self, pod):
        meta = pod["metadata"]
        if self.lingers:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self.put({**pod, "metadata": {**meta, "deletionTimestamp": stamp}})
        else:
            self.remove("Pod", meta["name"], meta["namespace"])

    def status(self, kind, name, status, namespace="ml"):
        """Replace the status of an object."""
        with self.lock:
            group, _, plural = PLURALS[kind]
            return self.put({**self.objects[group, plural][namespace, name], "status": status})

    def remove(self, kind, name, namespace="ml"):
        """The object is gone now."""
        with self.lock:
            group, _, plural = PLURALS[kind]
            gone = self.objects.get((group, plural), {}).pop((namespace, name), None)
            if gone is not None:
                self._write(group, plural, "DELETED", copy.deepcopy(gone))
                self._owners_react(gone)

    def named(self, kind, name, namespace="ml"):
        with self.lock:
            group, _, plural = PLURALS[kind]
            return self.objects.get((group, plural), {}).get((namespace, name))

    def every(self, kind):
        with self.lock:
            group, _, plural = PLURALS[kind]
            return list(self.objects.get((group, plural), {}).values())

    def compact(self):
        """Forget what came before: watches from older versions are told 410 Gone."""
        with self.lock:
            self.oldest = self.version

    def cut(self):
        """Every watch ends now, as it does after its time."""
        with self.lock:
            self.cuts += 1
            self.changed.notify_all()

    def fault(self, match, kind, times=1, seconds=0.0):
        self.faults.append(Fault(match, kind, times, seconds))

    # -- what the server does --------------------------------------------------------------------------------

    def _write(self, group, plural, kind, obj):
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.history.append((self.version, group, plural, kind, obj))
        self.changed.notify_all()

    def create(self, group, plural, namespace, obj):
        with self.lock:
            kind = next((k for k, (g, _, p) in PLURALS.items() if (g, p) == (group, plural)), None)
            if kind != obj.get("kind"):
                raise Refused(400, "BadRequest", f"the object is no {kind}")
            meta = obj.setdefault("metadata", {})
            if meta.get("uid") or meta.get("resourceVersion"):
                raise Refused(400, "BadRequest", "resourceVersion should not be set on objects to be created")
            if (namespace, meta["name"]) in self.objects.get((group, plural), {}):
                raise Refused(409, "AlreadyExists", f'{plural} "{meta["name"]}" already exists')
            made = self.put({**obj, "metadata": {**meta, "namespace": namespace}})
            if self.runs_jobs and plural != "pods":
                self._pod_for(made)
            elif self.runs_jobs:
                self.status("Pod", meta["name"], running_status(made), namespace)
            return made

    def _pod_for(self, owner, name=None):
        meta = owner["metadata"]
        template = first_template(owner)
        labels = {**template.get("metadata", {}).get("labels", {}), **labels_for(owner)}
        pod = {
            "kind": "Pod",
            "metadata": {
                "name": name or f"{meta['name']}-{uuid.uuid4().hex[:5]}",
                "namespace": meta["namespace"],
                "labels": labels,
                "ownerReferences": [
                    {
                        "apiVersion": owner["apiVersion"],
                        "kind": owner["kind"],
                        "name": meta["name"],
                        "uid": meta["uid"],
                        "controller": True,
                    }
                ],
            },
            "spec": {**template["spec"], "nodeName": "gpu-1"},
        }
        pod["status"] = running_status(pod)
        self.put(pod)
        if owner["kind"] == "RayJob":
            at_work = {
                "rayClusterName": meta["name"],
                "jobDeploymentStatus": "Running",
                "jobStatus": "RUNNING",
            }
            self.status("RayJob", meta["name"], at_work, meta["namespace"])

    def delete(self, group, plural, namespace, name, options):
        with self.lock:
            found = self.objects.get((group, plural), {}).get((namespace, name))
            if found is None:
                raise Refused(404, "NotFound", f'{plural} "{name}" not found')
            wanted = (options.get("preconditions") or {}).get("uid")
            if wanted and wanted != found["metadata"]["uid"]:
                raise Refused(409, "Conflict", "the UID in the precondition does not match")
            uid = found["metadata"]["uid"]
            kind = found["kind"]
            if self.lingers:
                stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                self.put({**found, "metadata": {**found["metadata"], "deletionTimestamp": stamp}})
                self._owners_react(found)
                return found
            self.going.add(uid)
            for pod in self.every("Pod"):
                if any(one["uid"] == uid for one in pod["metadata"].get("ownerReferences", ())):
                    self.remove("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
            self.remove(kind, name, namespace)
            return found

    def list_of(self, group, plural, namespace, query):
        """Objects that match, by name; of a page, and what continues it."""
        with self.lock:
            table = self.objects.get((group, plural), {})
            found = [
                obj
                for (ns, _), obj in sorted(table.items())
                if (not namespace or ns == namespace) and matches(obj, query)
            ]
            begin, limit = int(query.get("continue") or 0), int(query.get("limit") or 0)
            page = found[begin : begin + limit] if limit else found[begin:]
            more = str(begin + limit) if limit and begin + limit < len(found) else ""
            return copy.deepcopy(page), more, self.version

    def since(self, version, group, plural, namespace, query):
        """Events after a version, and the newest version; Refused(410) for what is forgotten."""
        with self.lock:
            if version < self.oldest:
                raise Refused(410, "Expired", f"too old resource version: {version} ({self.oldest})")
            found = []
            for at, g, p, kind, obj in reversed(self.history):
                if at <= version:
                    break
                if (
                    (g, p) == (group, plural)
                    and (not namespace or obj["metadata"].get("namespace") == namespace)
                    and matches(obj, query)
                ):
                    found.append((kind, obj))
            return found[::-1], self.version

    def allowed(self, verb, group, resource):
        self.calls.append((verb, group, resource))
        if self.rules is None:
            return True
        return any(
            verb in rule["verbs"] and group in rule["apiGroups"] and resource in rule["resources"]
            for rule in self.rules
        )


def matches(obj, query):
    """Label and field selectors, as far as they are used."""
    for part in filter(None, query.get("labelSelector", "").split(",")):
        key, _, value = part.partition("=")
        if obj["metadata"].get("labels", {}).get(key) != value:
            return False
    for part in filter(None, query.get("fieldSelector", "").split(",")):
        path, _, value = part.partition("=")
        seen = obj
        for step in path.split("."):
            seen = seen.get(step, {}) if isinstance(seen, dict) else {}
        if seen != value:
            return False
    return True


def first_template(owner):
    spec = owner["spec"]
    match owner["kind"]:
        case "Job" | "StatefulSet" | "Deployment" | "ReplicaSet":
            return spec["template"]
        case "JobSet":
            return spec["replicatedJobs"][0]["template"]["spec"]["template"]
        case "RayJob":
            return spec["rayClusterSpec"]["headGroupSpec"]["template"]
        case "RayCluster":
            return spec["headGroupSpec"]["template"]
        case "PyTorchJob":
            return next(iter(spec["pytorchReplicaSpecs"].values()))["template"]
        case _:
            return {"spec": {"containers": [{"name": "node"}]}}


def labels_for(owner):
    name = owner["metadata"]["name"]
    return {
        "Job": {"batch.kubernetes.io/job-name": name, "job-name": name},
        "JobSet": {"jobset.sigs.k8s.io/jobset-name": name},
        "RayJob": {"ray.io/cluster": name},
        "RayCluster": {"ray.io/cluster": name},
        "PyTorchJob": {"training.kubeflow.org/job-name": name},
        "TrainJob": {"jobset.sigs.k8s.io/jobset-name": name},
    }.get(owner["kind"], {})


def running_status(pod):
    return {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": one["name"],
                "restartCount": 0,
                "ready": True,
                "started": True,
                "state": {"running": {"startedAt": "2026-01-31T08:00:00Z"}},
                "lastState": {},
            }
            for one in pod["spec"]["containers"]
        ],
    }
