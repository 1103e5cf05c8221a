"""Kubernetes for commands: the way to the API server, and what a diagnosis can read of a target."""

import os
import shlex
import shutil
import time
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec

from runward import ports
from runward.app import diagnose
from runward.backends.k8s import api, asked, backend, kubectl, logs, targets
from runward.core import context, errors, job, kubernetes, kubernetes_nodes, kubernetes_owners, signals
from runward.runners import local
from runward.wiring.diagnose import Sources, text_log

_PODS_READ = 4


def transport() -> api.Transport:
    """KUBECTL where it is set; else lightkube, where it is installed and can log in; else kubectl.

    Raises UsageError when there is neither.
    """
    words = os.environ.get("KUBECTL")
    why = "lightkube is not installed (extra `k8s`)"
    if not words and find_spec("lightkube") is not None:
        from runward.backends.k8s import direct

        try:
            return direct.open_client()
        except direct.NotForUs as not_for_us:
            why = str(not_for_us)
    command = tuple(shlex.split(words or "kubectl"))
    if not command or shutil.which(command[0]) is None:
        problem = f"no way to a cluster: {why}, and {command[0] if command else 'kubectl'} is not installed"
        raise errors.UsageError(
            errors.Problem(problem, "k8s:", next_step="Set KUBECONFIG, or install kubectl.")
        )
    return kubectl.Kubectl(local.Local(), command)


@cache
def cluster() -> backend.Cluster:
    """The backend that all runs of this process share."""
    return backend.Cluster(transport())


def pods() -> asked.Pods:
    """Pods and owners, asked for one at a time."""
    return asked.Pods(transport())


def seen(one: asked.Pods, target: str) -> job.JobStatus:
    """How a target stands. Raises NotFound, Unreachable."""
    found = one.poll([target])[target]
    if isinstance(found, job.JobStatus):
        return found
    where = f"k8s:{target}"
    try:
        gone = one.pod(target) is None
    except ports.ContactLost:
        gone = False
    raise (errors.NotFound if gone else errors.Unreachable)(errors.Problem(found.why, where))


def found(one: asked.Pods, target: targets.Target) -> backend.Object:
    """The object. Raises NotFound, ContactLost."""
    there = one.pod(str(target))
    if there is None:
        raise errors.NotFound(errors.Problem(f"there is no {target.kind.word} {target}", f"k8s:{target}"))
    return there


def pod_names(one: asked.Pods, target: str) -> tuple[str, ...]:
    """`NAMESPACE/POD` of a target's first pods. Raises ContactLost."""
    parsed = targets.parse(target)
    if parsed.kind is kubernetes_owners.POD:
        return (str(parsed),)
    return tuple(f"{parsed.namespace}/{kubernetes.name(pod)}" for pod in one.pods_of(target)[:_PODS_READ])


def diagnosable(target: str) -> Sources:
    """What the general diagnosis can read of a pod or an owner: logs, those before them, exit, events, the node."""
    one = pods()
    parsed = targets.parse(target)
    status = seen(one, target)
    texts = [*one.events(target), status.reason]
    shown = one.pods_of(target)[:_PODS_READ]
    if [kubernetes.name(pod) for pod in shown] != [parsed.name]:
        for pod in shown:
            texts += one.events(f"{parsed.namespace}/{kubernetes.name(pod)}")
    witnesses, words = node_facts(one.cluster, status)
    said = [context.Text("k8s", text) for text in texts if text]
    said += [context.Text("node", text) for text in words]
    known = context.Context(
        exit=status.exit,
        running=not status.state.final,
        state=status.word.upper(),
        scheduler="k8s",
        witnesses=(*status.witnesses, *witnesses),
        texts=tuple(said[:64]),
        node=status.node,
    )
    read = [log for pod in shown for log in _logs(one, parsed.namespace, pod)]
    return Sources(tuple(read), known)


def _logs(one: asked.Pods, namespace: str, pod: backend.Object) -> Iterable[diagnose.Log]:
    name = kubernetes.name(pod)
    of = logs.Container(namespace, name, kubernetes.main_container(pod))
    again = bool(kubernetes.main_status(pod).get("restartCount"))
    for before, shown in ((True, f"k8s:{namespace}/{name} (previous)"), (False, f"k8s:{namespace}/{name}")):
        if again or not before:
            text = logs.whole(one.transport, of, previous=before)
            yield text_log(signals.Source(shown), text)


def node_facts(of: backend.Cluster, end: job.JobStatus) -> tuple[tuple[job.Witness, ...], tuple[str, ...]]:
    """Witnesses and words of the node of an end that did not go well; nothing where it may not be read."""
    if end.node is None or end.state is job.JobState.SUCCEEDED:
        return (), ()
    node, why = of.node(end.node)
    if why:
        return (), ()
    return kubernetes_nodes.witnesses(node, end.node, end), kubernetes_nodes.texts(node, end.node)


def ended_with(pod: str, seen: bool) -> job.JobStatus | None:
    """The end of a whole pod, where the cluster says it: nobody saw the exit of a process in it."""
    try:
        one = pods()
        found = one.poll([pod])[pod]
        if isinstance(found, job.JobStatus):
            return found._replace(exit=job.ExitStatus.unseen()) if found.state.final else None
        if not seen or one.pod(pod) is not None:
            return None
    except (ports.ContactLost, errors.UsageError):
        return None
    return job.JobStatus(job.JobState.CANCELLED, "Deleted", job.ExitStatus.unseen(), ended_at=time.time())
