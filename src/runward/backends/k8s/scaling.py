"""Owners that make their pods anew whenever they go, ended and begun by their `replicas`.

Deleting such a pod ends nothing: a Deployment makes the next one before the old one is gone, which is two writers, and
a StatefulSet's comes back whatever the policy says. 0 replicas end an attempt, the number before begins the next one.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from runward import ports
from runward.backends.k8s import api, manifests, targets
from runward.core import errors, kubernetes, kubernetes_owners

Object = Mapping[str, Any]
Change = Callable[[Object], dict[str, Any] | None]
"""What an object is to become; None: it is so already."""
_TRIES = 4


def begin(
    transport: api.Transport, target: targets.Target, made: Object, living: Callable[[Object], int]
) -> Object:
    """Let it have its pods again, with what `made` (see `manifests.from_spec`) adds to their template; returns it.

    `living` tells how many of its pods are left. Raises UsageError while there are some or it is not to be changed,
    ContactLost.
    """

    def change(found: Object) -> dict[str, Any] | None:
        if manifests.token_of(found) == manifests.token_of(made):
            return None
        left = max(living(found), kubernetes_owners.replicas(found))
        if left:
            problem = f"it still has {left} pods: none is begun beside them"
            raise errors.UsageError(errors.Problem(problem, f"k8s:{target}"))
        wanted = copy.deepcopy(dict(found))
        wanted["metadata"]["annotations"] = {
            **(found["metadata"].get("annotations") or {}),
            manifests.TOKEN: manifests.token_of(made),
        }
        wanted["spec"]["replicas"] = max(1, kubernetes_owners.replicas(made))
        manifests.take_over(wanted, made)
        return wanted

    begun = _changed(transport, target, change)
    if begun is None:
        raise errors.UsageError(errors.Problem("it is not there any more", f"k8s:{target}"))
    return begun


def end(transport: api.Transport, target: targets.Target) -> None:
    """No pods any more, each with its own grace. Nothing when it is gone. Raises ContactLost."""

    def change(found: Object) -> dict[str, Any] | None:
        if kubernetes_owners.replicas(found) == 0:
            return None
        return {**found, "spec": {**found["spec"], "replicas": 0}}

    _changed(transport, target, change)


def _changed(
    transport: api.Transport, target: targets.Target, change: Change, tries: int = _TRIES
) -> Object | None:
    """Change the object as it is now; None when it is gone. A change of somebody else in between is looked at anew."""
    try:
        found = api.read(transport, api.Ask(target.path))
        if target.uid and kubernetes.uid(found) != target.uid:
            return None
        wanted = change(found)
        if wanted is not None:
            transport.ask(api.Ask(target.path, method="PUT", body=wanted))
    except api.Refused as refused:
        if refused.status == 404:
            return None
        if refused.status == 409 and tries > 1:
            return _changed(transport, target, change, tries - 1)
        raise ports.ContactLost(api.why(refused)) from refused
    return found
