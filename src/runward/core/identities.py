"""What a scheduler names processes by that is no number: ids of actors, workers, containers."""

from runward.core import regexes

_IDENTITY = (
    r"(?i)\b(?:actor|worker|task|container|instance|executor)[ _]?(?:id)?['\"]?[ =:]{1,3}['\"]?"
    r"(?P<id>(?=[0-9a-f]*\d)[0-9a-f]{8,64})\b"
)


def of(text: str) -> list[str]:
    """Those that a text holds, lower case."""
    return [found["id"].lower() for found in regexes.ready(_IDENTITY).finditer(text)]
