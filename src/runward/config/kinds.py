"""Which kind of configuration a file is, and how each kind is validated, described and begun."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from runward.config import chain_files, documents, inventories, policy_files, setting_files, shapes
from runward.core import errors

KINDS = ("settings", "policy", "inventory", "chain", "monitoring", "restart", "run")

_Reader = Callable[[documents.Value, shapes.Problems], object]

_READERS: dict[str, _Reader] = {
    "settings": setting_files.read,
    "policy": lambda value, problems: policy_files.read(value, "file", problems),
    "inventory": inventories.read,
    "chain": chain_files.read,
}

_SHAPES: dict[str, shapes.Shape] = {
    "settings": setting_files.SHAPE,
    "policy": policy_files.SHAPE,
    "inventory": inventories.SHAPE,
    "chain": chain_files.SHAPE,
}


def validate(path: str, overrides: Sequence[str] = ()) -> str:
    """The kind of a valid file; `overrides` are Hydra's. Raises UsageError with every mistake."""
    value = documents.load(path)
    kind = kind_of(value)
    reader = _READERS.get(kind)
    if reader is None:
        from runward.config import autoexp_files  # noqa: PLC0415 -- Hydra is slow to import

        autoexp_files.validate(path, kind, overrides)
        return kind
    if overrides:
        what = f"{path} is of kind {kind}: only run, monitoring and restart are composed"
        raise errors.UsageError(errors.Problem(what, where="--set"))
    problems = shapes.Problems()
    reader(value, problems)
    problems.raise_any()
    return kind


def kind_of(value: documents.Value) -> str:
    """The word after `kind:`, else what the keys show. Raises UsageError."""
    if not isinstance(value.data, dict):
        raise errors.UsageError(errors.Problem(f"must be a mapping, is {value.kind}", where=str(value.mark)))
    said = value.data.get("kind")
    if said is not None:
        problems = shapes.Problems()
        try:
            return str(shapes.Choice(KINDS).read(said, "kind", problems))
        except shapes.Invalid:
            raise errors.UsageError(*problems.found) from None
    shown = (
        ("stages", "chain"),
        ("policies", "restart"),
        ("log_signals", "monitoring"),
        ("class_name", "monitoring"),
    )
    for word, kind in shown:
        if word in value.data:
            return kind
    if "defaults" in value.data:
        folder = os.path.basename(os.path.dirname(os.path.abspath(value.mark.file)))
        return folder if folder in ("monitoring", "restart") else "run"
    what = f"does not say what it is: add one of kind: {', '.join(KINDS)}"
    raise errors.UsageError(errors.Problem(what, where=str(value.mark)))


def schema(kind: str) -> dict[str, Any]:
    """JSON Schema of a kind, for editors."""
    if kind in _SHAPES:
        shape = _SHAPES[kind].schema()
    else:
        from runward.config import autoexp_shapes  # noqa: PLC0415 -- rarely asked

        shape = autoexp_shapes.schema(kind)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"Runward {kind}", **shape}


def template(kind: str) -> str:
    """A file of that kind to begin with: every key with its default and meaning."""
    match kind:
        case "settings":
            return _settings_template()
        case "policy":
            return policy_files.text("default")
        case "inventory":
            return _INVENTORY
        case "chain":
            return _CHAIN
        case _:
            from runward.config import autoexp_files  # noqa: PLC0415 -- rarely asked

            return autoexp_files.template(kind)


def _settings_template() -> str:
    lines, section = ["kind: settings", "version: 1"], ""
    for name, word, shown, about in setting_files.defaults():
        if name != section:
            lines += ["", f"{name}:"]
            section = name
        lines.append(f"  # {word}: {_yaml(shown)}  # {about}")
    lines = [line if not line.endswith(":") else f"# {line}" for line in lines]
    return "\n".join(lines) + "\n"


def _yaml(shown: object) -> str:
    if isinstance(shown, bool):
        return "true" if shown else "false"
    return "null" if shown is None else str(shown)


_INVENTORY = """\
kind: inventory
version: 1
currency: EUR
hosts:
  box-a:
    host: user@box-a.example.org   # as ssh takes it
    workdir: /data/runs
    logs: [/data/runs/train.log]
    checkpoints: [/data/runs/ckpt]
    mounts: [/data]
    detach: auto                   # auto, systemd-run, tmux, setsid, screen
    cost_per_hour: 2.5
"""

_CHAIN = """\
kind: chain
version: 1
log: chain.log
marker: STAGE_DONE               # made after the last stage
stages:                          # in order, each only after the one before exited 0
  prepare:
    argv: [python, prepare.py]
  train:
    argv: [bash, -c, 'python train.py | tee train.txt']   # a shell only where you say so
    timeout: 48h
"""
