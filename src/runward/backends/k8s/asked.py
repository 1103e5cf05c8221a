"""Objects asked for one at a time, without a watch: what a command needs that looks once."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from runward.backends.k8s import api, backend, logs, looked, targets
from runward.core import job, kubernetes, kubernetes_owners
from runward.ports import ContactLost


class Pods:
    """Pods and their owners by `NAMESPACE/[KIND/]NAME`."""

    name = "k8s"

    def __init__(self, transport: api.Transport) -> None:
        self.transport = transport
        self.cluster = backend.Cluster(transport)

    def pod(self, where: str) -> Mapping[str, Any] | None:
        """The object; None when the cluster says that there is none. Raises ContactLost."""
        return self.cluster.fetch(targets.parse(where))

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """How each stands now. The world's faults become `Unseen`."""
        return {one: self._status(one) for one in jobs}

    def _status(self, where: str) -> job.JobStatus | job.Unseen:
        target = targets.parse(where)
        try:
            found = self.cluster.fetch(target)
            if found is None:
                return job.Unseen(f"there is no {target.kind.word} {target}", time.time())
            return self.cluster.judge(target, found, self.cluster.pods_of(target, found))
        except ContactLost as lost:
            return job.Unseen(str(lost), time.time())

    def pods_of(self, where: str) -> list[Mapping[str, Any]]:
        """The pods of an object, those that failed first. Raises ContactLost."""
        target = targets.parse(where)
        found = self.cluster.fetch(target)
        pods = self.cluster.pods_of(target, found) if found is not None else []
        return sorted(pods, key=lambda pod: (not looked.failed(pod), kubernetes.name(pod)))

    def text(self, where: str, *, previous: bool = False) -> bytes:
        """The end of the log of a pod, or of an owner's first pod; empty when there is none. Raises ContactLost."""
        target = targets.parse(where)
        name = target.name
        if target.kind is not kubernetes_owners.POD:
            pods = self.pods_of(where)
            if not pods:
                return b""
            name = kubernetes.name(pods[0])
        of = logs.Container(target.namespace, name, None)
        return logs.whole(self.transport, of, previous=previous)

    def events(self, where: str) -> list[str]:
        """Warnings about an object: `REASON: message`."""
        return self.cluster.warnings(targets.parse(where))
