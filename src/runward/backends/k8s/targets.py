"""What `k8s:` names: a pod or an owner of pods in a namespace, and once it was seen, which one of that name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runward.core import errors, kubernetes, kubernetes_owners

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_SHORT: Mapping[str, str] = {"pods": "pod", "po": "pod", "jobs": "job", "pytorch": "pytorchjob"}


@dataclass(frozen=True, slots=True)
class Target:
    """One object."""

    namespace: str
    kind: kubernetes_owners.Kind
    name: str
    uid: str = ""
    """Of the object that was seen under this name; empty: whichever has it now."""

    def __str__(self) -> str:
        word = "" if self.kind is kubernetes_owners.POD else f"{self.kind.word}/"
        return f"{self.namespace}/{word}{self.name}"

    @property
    def handle(self) -> str:
        """As `parse` reads it again, with the UID."""
        return f"{self}@{self.uid}" if self.uid else str(self)

    def of(self, seen: Mapping[str, Any]) -> "Target":
        """The same name of the object that was seen, and of no other one."""
        return replace(self, uid=kubernetes.uid(seen))

    @property
    def path(self) -> str:
        """The object's path in the API."""
        return self.kind.path(self.namespace, self.name)


def parse(text: str) -> Target:
    """`[NAMESPACE/][KIND/]NAME[@UID]`. Raises UsageError."""
    where, _, uid = text.partition("@")
    parts = where.split("/")
    word = "pod"
    if len(parts) == 3:
        word = parts.pop(1).lower()
    namespace, name = parts if len(parts) == 2 else ("default", parts[0])
    kind = kubernetes_owners.KINDS.get(_SHORT.get(word, word))
    if kind is None:
        near = errors.nearest(word, kubernetes_owners.KINDS)
        raise errors.UsageError(errors.Problem(f"{word!r} is no kind that is followed", "k8s:", nearest=near))
    if len(parts) > 2 or not _NAME.fullmatch(namespace) or not _NAME.fullmatch(name):
        step = "Write k8s:NAMESPACE/POD or k8s:NAMESPACE/job/NAME."
        raise errors.UsageError(errors.Problem(f"{where!r} names no pod", "k8s:", next_step=step))
    return Target(namespace, kind, name, uid)
