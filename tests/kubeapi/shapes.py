"""API objects in the shapes that Kubernetes 1.29 to 1.33 and the operators give them."""


def pod(
    name="x", *, state=None, phase="Running", last=None, policy="Never", labels=None, owner=None, **status
):
    container = {
        "name": "train",
        "image": "train:1",
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 1 if last else 0,
        "state": state or {"running": {"startedAt": "2026-01-31T07:00:00Z"}},
        "lastState": last or {},
    }
    meta = {"name": name, "namespace": "ml", "labels": labels or {}}
    if owner:
        meta["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": meta,
        "spec": {
            "nodeName": "gpu-7",
            "restartPolicy": policy,
            "containers": [{"name": "train", "image": "train:1", "command": ["python", "train.py"]}],
        },
        "status": {"phase": phase, "containerStatuses": [container], **status},
    }


def ended(code, reason="Error", at="2026-01-31T08:00:00Z", **more):
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "startedAt": "2026-01-31T07:00:00Z",
            "finishedAt": at,
            **more,
        }
    }


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


def condition(kind, value="True", reason="", message="", at="2026-01-31T08:00:00Z"):
    return {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": at}


def template():
    return {
        "metadata": {"labels": {"app": "train"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "train", "image": "train:1", "command": ["python", "train.py"]}],
        },
    }


def job(name="j", **status):
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"backoffLimit": 0, "template": template()},
        "status": status,
    }


def jobset(name="js", **status):
    inner = {"spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template()}}
    return {
        "kind": "JobSet",
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": inner}]},
        "status": status,
    }


def rayjob(name="rj", **status):
    cluster = {
        "headGroupSpec": {"rayStartParams": {}, "template": template()},
        "workerGroupSpecs": [{"groupName": "w", "replicas": 1, "rayStartParams": {}, "template": template()}],
    }
    return {
        "kind": "RayJob",
        "apiVersion": "ray.io/v1",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {
            "entrypoint": "python -m verl.trainer.main_ppo",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": cluster,
        },
        "status": status,
    }


def pytorchjob(name="pt", **status):
    replicas = {
        "Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": template()},
        "Worker": {"replicas": 1, "restartPolicy": "OnFailure", "template": template()},
    }
    return {
        "kind": "PyTorchJob",
        "apiVersion": "kubeflow.org/v1",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"pytorchReplicaSpecs": replicas},
        "status": status,
    }


def scaled(kind, name="s", replicas=1):
    """A StatefulSet, Deployment or ReplicaSet."""
    labels = {"app": name, "tier": "train"}
    made = template()
    made["metadata"]["labels"] = labels
    made["spec"]["restartPolicy"] = "Always"
    return {
        "kind": kind,
        "apiVersion": "apps/v1",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": made},
        "status": {"replicas": replicas},
    }


def trainjob(name="tj", **status):
    return {
        "kind": "TrainJob",
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}},
        "status": status,
    }


def node(name="gpu-7", *conditions, **spec):
    every = list(conditions)
    if not any(one["type"] == "Ready" for one in every):
        every.append(condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"conditions": every},
    }
