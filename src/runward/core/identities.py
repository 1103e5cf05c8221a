"""What processes are named by that is no number: ids of actors, workers, containers."""

from runward.core import regexes

_IDENTITY = (
    r"(?i)\b(?:actor|worker|task|container|instance|executor)[ _]?(?:id)?['\"]?[ =:]{1,3}['\"]?"
    r"(?P<id>(?=[0-9a-f]*\d)[0-9a-f]{8,64})\b"
)
"""What a scheduler names a process by, where it is no number."""


def of(text: str) -> list[str]:
    """What a text names processes by that is no number: ids of actors, workers, containers."""
    return [found["id"].lower() for found in regexes.ready(_IDENTITY).finditer(text)]
