"""Chain files (`kind: chain`): stages with argv lists, limits, where log and marker lie."""

from dataclasses import dataclass
from typing import Any

from runward.config import documents, shapes
from runward.core import stages


@dataclass(frozen=True, slots=True)
class _Argv:
    """A command as a list of words; no shell splits one string."""

    def read(self, value: documents.Value, path: str, problems: shapes.Problems) -> tuple[str, ...]:
        if isinstance(value.data, str):
            what = (
                "must be a list of words, is text: write [python, train.py], or [bash, -c, '...'] for a shell"
            )
            raise problems.add(value, path, what)
        words: tuple[str, ...] = _WORDS.read(value, path, problems)
        if not words or not words[0]:
            raise problems.add(value, path, "is an empty command")
        return words

    def schema(self) -> dict[str, Any]:
        return {**_WORDS.schema(), "minItems": 1}


_WORDS = shapes.Listing(shapes.Text(), at_most=10_000)
_NAME = shapes.Text(stages.NAME, "a stage name (letters, digits, dot, dash, underscore)")
_STAGE = shapes.Fields(
    {
        "argv": shapes.Key(_Argv(), shapes.REQUIRED, "the command, word by word"),
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
        "stages": shapes.Key(shapes.Table(_STAGE, _NAME), shapes.REQUIRED, "name to command, in order"),
    }
)


def load(path: str) -> dict[str, Any]:
    """`log`, `marker`, `notify`, and `stages` as values. Raises UsageError with every mistake."""
    problems = shapes.Problems()
    parts = read(documents.load(path), problems)
    problems.raise_any()
    assert parts is not None  # noqa: S101 -- None comes only with a noted mistake
    return parts


def read(value: documents.Value, problems: shapes.Problems) -> dict[str, Any] | None:
    """What `load` gives of a document, or None after its mistakes were noted."""
    try:
        parts: dict[str, Any] = SHAPE.read(value, "", problems)
    except shapes.Invalid:
        return None
    if not parts["stages"]:
        problems.add(value.data["stages"], "stages", "names no stage")
        return None
    made = [
        stages.Stage(name, tuple(keys["argv"]), keys["timeout"], keys["cwd"])
        for name, keys in parts["stages"].items()
    ]
    return {**parts, "stages": tuple(made)}
