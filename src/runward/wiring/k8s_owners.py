"""What is handed over: the object that was named, or what would make it anew behind our back."""

from collections.abc import Mapping
from typing import Any

from runward.backends.k8s import asked, targets
from runward.core import errors, kubernetes_owners

Object = Mapping[str, Any]


def handed_over(one: asked.Pods, target: targets.Target, found: Object) -> tuple[targets.Target, Object]:
    """A pod of one replica stands for its owner, which is what is ended and begun. Raises UsageError, ContactLost."""
    top, held = target, found
    while (maker := kubernetes_owners.maker(held)) is not None:
        kind = kubernetes_owners.kind_of(maker)
        above = targets.Target(target.namespace, kind, str(maker.get("name"))) if kind is not None else None
        seen = one.pod(str(above)) if above is not None else None
        if above is None or seen is None:
            said = f"{maker.get('kind')} {maker.get('name')}"
            raise _refused(
                f"{top} was made by {said}, which starts it again by itself", "Attach without --act."
            )
        top, held = above, seen
    _check_ends(top, held)
    if top != target:
        _check_owner(target, top, held)
    return top, held


def _check_owner(target: targets.Target, top: targets.Target, held: Object) -> None:
    """Whether an owner may be taken in the place of the pod that was named."""
    said = f"{target} was made by {top.kind.kind} {top.name}, which starts it again by itself"
    if not top.kind.scaled:
        raise _refused(said, f"Attach without --act, or hand over k8s:{top} itself.")
    if kubernetes_owners.replicas(held) > 1:
        many = f"its {kubernetes_owners.replicas(held)} pods end and begin together"
        raise _refused(said, f"Attach without --act, or hand over k8s:{top}: {many}.")


def _check_ends(top: targets.Target, held: Object) -> None:
    if top.kind.word == "raycluster":
        raise _refused("a RayCluster has no end of its own", "Hand over its RayJob.")
    if top.kind.scaled and kubernetes_owners.replicas(held) == 0:
        raise _refused(f"{top.kind.kind} {top.name} is scaled to 0", "Scale it up first.")


def _refused(problem: str, step: str) -> errors.UsageError:
    return errors.UsageError(errors.Problem(problem, "--act", next_step=step))
