"""Inventories of far boxes (`kind: inventory`): who they are, where work lies, what they cost."""

from typing import Any

from runward.config import documents, shapes
from runward.core import inventory

_NAME = shapes.Text(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "a name of letters, digits, dot, dash, underscore")
_HOST = shapes.Text(r"[A-Za-z0-9_][A-Za-z0-9_.@:%\[\]-]{0,254}", "a host as ssh takes it (no leading dash)")
_PATH = shapes.Text(r"[/~].{0,4094}", "an absolute path")

_BOX = shapes.Fields(
    {
        "host": shapes.Key(_HOST, None, "as ssh takes it; the box's own name when left out"),
        "workdir": shapes.Key(shapes.Optional(_PATH), None, "where the work lies"),
        "logs": shapes.Key(shapes.Listing(_PATH, at_most=100, bare=True), (), "logs to look at"),
        "checkpoints": shapes.Key(shapes.Listing(_PATH, at_most=100, bare=True), (), "checkpoint directories"),
        "mounts": shapes.Key(shapes.Listing(_PATH, at_most=100, bare=True), (), "data mounts whose space matters"),
        "detach": shapes.Key(
            shapes.Choice(("auto", "systemd-run", "tmux", "setsid", "screen")), "auto", "how work outlives a login"
        ),
        "cost_per_hour": shapes.Key(shapes.Number(0, 1e6, whole=False), None, "in the currency of the file"),
        "labels": shapes.Key(shapes.Table(shapes.Text()), {}, "free words"),
    },
)  # fmt: skip

SHAPE = shapes.Fields(
    {
        "kind": shapes.Key(shapes.Choice(("inventory",)), shapes.REQUIRED, "inventory"),
        "version": shapes.Key(shapes.Number(1, 1), shapes.REQUIRED, "1"),
        "currency": shapes.Key(
            shapes.Text(r"[A-Z]{3}", "a currency code such as EUR"), "USD", "of the costs"
        ),
        "hosts": shapes.Key(shapes.Table(_BOX, _NAME), shapes.REQUIRED, "name to box"),
    }
)


def load(path: str) -> inventory.Inventory:
    """The boxes of a file. Raises UsageError with every mistake."""
    problems = shapes.Problems()
    found = read(documents.load(path), problems)
    problems.raise_any()
    assert found is not None  # noqa: S101 -- None comes only with a noted mistake
    return found


def read(value: documents.Value, problems: shapes.Problems) -> inventory.Inventory | None:
    """The boxes that a document describes, or None after its mistakes were noted."""
    try:
        parts: dict[str, Any] = SHAPE.read(value, "", problems)
    except shapes.Invalid:
        return None
    boxes = []
    for name, keys in parts["hosts"].items():
        boxes.append(inventory.Box(name=name, **{**keys, "host": keys["host"] or name}))
    return inventory.Inventory(tuple(boxes), parts["currency"])
