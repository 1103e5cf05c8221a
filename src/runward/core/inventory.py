"""Far boxes as values: who they are, where work lies, what they cost."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Box(NamedTuple):
    """One box."""

    name: str
    host: str
    """As ssh takes it."""
    workdir: str | None = None
    logs: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    """Data mounts whose space matters."""
    detach: str = "auto"
    """How work outlives a login there: `auto`, `systemd-run`, `tmux`, `setsid`, `screen`."""
    cost_per_hour: float | None = None
    """In the inventory's currency; None: not known."""
    labels: Mapping[str, str] = MappingProxyType({})


class Inventory(NamedTuple):
    """All boxes of a file."""

    boxes: tuple[Box, ...]
    currency: str = "USD"
