"""Chain files (`kind: chain`): stages with argv lists, limits, where log and marker lie."""

from typing import Any

from runward.config import documents, shapes
from runward.core import stages

_STAGE = shapes.Fields(
    {
        "argv": shapes.Key(
            shapes.Listing(shapes.Text(), at_most=10_000), shapes.REQUIRED, "the command, word by word"
        ),
        "timeout": shapes.Key(shapes.Optional(shapes.Duration()), None, "ended after this long"),
        "cwd": shapes.Key(shapes.Optional(shapes.Text()), None, "where it starts"),
    }
)
SHAPE = shapes.Fields(
    {
        "kind": shapes.Key(shapes.Choice(("chain",)), shapes.REQUIRED, "chain"),
        "version": shapes.Key(shapes.Number(1, 1), shapes.REQUIRED, "1"),
        "log": shapes.Key(shapes.Text(), "chain.log", "all output"),
        "marker": shapes.Key(shapes.Text(), "STAGE_DONE", "made after the last stage"),
        "notify": shapes.Key(
            shapes.Listing(shapes.Text(), at_most=20, bare=True), (), "told after each stage"
        ),
        "stages": shapes.Key(shapes.Table(_STAGE), shapes.REQUIRED, "name to command, in order"),
    }
)


def load(path: str) -> dict[str, Any]:
    """`log`, `marker`, `notify`, and `stages` as values. Raises UsageError with every mistake."""
    problems = shapes.Problems()
    try:
        parts: dict[str, Any] = SHAPE.read(documents.load(path), "", problems)
    except shapes.Invalid:
        parts = {}
    problems.raise_any()
    made = []
    for name, keys in parts["stages"].items():
        stages.check_name(name, path)
        made.append(stages.Stage(name, tuple(keys["argv"]), keys["timeout"], keys["cwd"]))
    return {**parts, "stages": tuple(made)}
