"""Kubernetes for commands: what a diagnosis can read of a pod."""

import os
import shlex

from runward.backends.k8s import kubectl
from runward.core import context, errors, job, signals
from runward.runners import local
from runward.wiring.diagnose import Sources, text_log


def pods() -> kubectl.Pods:
    """Pods by kubectl; KUBECTL in the environment names another command."""
    return kubectl.Pods(local.Local(), tuple(shlex.split(os.environ.get("KUBECTL", "kubectl"))))


def diagnosable(target: str) -> Sources:
    """What the general diagnosis can read of `NAMESPACE/POD`: its log, the log before it, exit, events."""
    one = pods()
    kubectl.split(target)
    seen = one.poll([target])[target]
    if isinstance(seen, job.Unseen):
        if one.pod(target) is None:
            raise errors.NotFound(errors.Problem(seen.why, f"k8s:{target}"))
        raise errors.Unreachable(errors.Problem(seen.why, f"k8s:{target}"))
    names = [(f"k8s:{target}", False)]
    if seen.restarts:
        names.insert(0, (f"k8s:{target} (previous)", True))
    logs = [text_log(signals.Source(name), one.text(target, previous=before)) for name, before in names]
    said = [context.Text("k8s", text) for text in (*one.events(target), seen.reason) if text]
    known = context.Context(
        exit=seen.exit,
        running=not seen.state.final,
        state=seen.word.upper(),
        scheduler="k8s",
        witnesses=seen.witnesses,
        texts=tuple(said[:64]),
        node=seen.node,
    )
    return Sources(tuple(logs), known)
