"""What a scheduler names processes by that is no number: ids of actors, workers, containers."""

from runward.core import regexes

_HOLDERS = ("actor", "worker", "task", "container", "instance", "executor")
_IDENTITY = (
    rf"\b(?:{'|'.join(_HOLDERS)})[ _]?(?:id)?['\"]?[ =:]{{1,3}}['\"]?"
    r"(?P<id>(?=[0-9a-f]*\d)[0-9a-f]{8,64})\b"
)


def of(text: str) -> list[str]:
    """Those that a text holds, lower case."""
    low = text.lower()
    return [found["id"] for found in regexes.find_all(_IDENTITY, low, low, *_HOLDERS)]
