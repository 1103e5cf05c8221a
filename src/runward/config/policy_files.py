"""Policy files: YAML of `kind: policy` becomes a `core.policies.Policy`.

The presets are files of the same kind, and so the one place that says what they do.
"""

import os
from dataclasses import replace
from typing import Any

from runward.config import documents, shapes
from runward.core import backoff, errors, failures, mode_policies, policies

_HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "policies")
_LAST_ROWS = "last_rows"


def names() -> tuple[str, ...]:
    """The presets' names, `default` first."""
    found = (entry.removesuffix(".yaml") for entry in os.listdir(_HERE) if entry.endswith(".yaml"))
    return tuple(sorted((name for name in found if name != _LAST_ROWS), key=lambda n: (n != "default", n)))


def choose(name_or_path: str) -> policies.Policy:
    """The preset of that name, else the file. Raises UsageError with every mistake."""
    if name_or_path in names():
        return _read(os.path.join(_HERE, f"{name_or_path}.yaml"), name_or_path)
    if os.sep in name_or_path or name_or_path.endswith((".yaml", ".yml")) or os.path.exists(name_or_path):
        stem = os.path.splitext(os.path.basename(name_or_path))[0]
        return _read(name_or_path, stem)
    raise errors.UsageError(
        errors.Problem(
            f"no policy {name_or_path!r} (there are {', '.join(names())})",
            where="--policy",
            nearest=errors.nearest(name_or_path, names()),
            next_step="Give one of these, or the path of a policy file.",
        )
    )


def choose_any(word: str) -> policies.Policy | mode_policies.ModePolicies:
    """A native preset or policy file, `seed:NAME` for restart policies by mode, or a restart file."""
    if not word.startswith("seed:") and (word in names() or not _is_by_mode(word)):
        return choose(word)
    from runward.config import autoexp_files  # noqa: PLC0415 -- Hydra is slow to import

    chosen = autoexp_files.restart(word.removeprefix("seed:"))
    return replace(chosen, name=word) if word.startswith("seed:") else chosen


def frozen(word: str) -> str | None:
    """The text to keep so that later watchers decide as the first one; None for a packaged preset."""
    if word in names():
        return None
    if not word.startswith("seed:") and not _is_by_mode(word):
        with open(word, encoding="utf-8") as file:
            return file.read()
    from runward.config import autoexp_files  # noqa: PLC0415 -- Hydra is slow to import

    return autoexp_files.frozen_restart(word.removeprefix("seed:"))


def _is_by_mode(path: str) -> bool:
    keys = documents.load(path).data if os.path.isfile(path) else {}
    return isinstance(keys, dict) and "rules" not in keys and ("policies" in keys or "defaults" in keys)


def text(name: str) -> str:
    """A preset as it is written."""
    with open(os.path.join(_HERE, f"{name}.yaml"), encoding="utf-8") as file:
        return file.read()


def read(value: documents.Value, name: str, problems: shapes.Problems) -> policies.Policy | None:
    """The policy that a document describes, or None after its mistakes were noted."""
    try:
        parts = SHAPE.read(value, "", problems)
    except shapes.Invalid:
        return None
    file = os.path.basename(value.mark.file)
    rows = value.data["rules"].data
    rules: tuple[policies.Rule, ...] = tuple(
        replace(rule, where=f"{file}:{row.mark.line}") for rule, row in zip(parts["rules"], rows, strict=True)
    )
    for rule, row in zip(rules[:-1], rows[1:], strict=True):
        if rule.matches_everything:
            problems.add(row, "rules", f"cannot be reached: {rule.where} matches every end")
            return None
    if not rules[-1:] or not rules[-1].matches_everything:
        rules += _last_rows(name)
    return policies.Policy(
        name=name,
        rules=rules,
        budget=parts["budget"],
        backoff=parts["backoff"],
        wait=parts["wait"],
        acts=parts["acts"],
    )


def _read(path: str, name: str) -> policies.Policy:
    problems = shapes.Problems()
    policy = read(documents.load(path), name, problems)
    problems.raise_any()
    assert policy is not None  # noqa: S101 -- None comes only with a noted mistake
    return policy


def _last_rows(name: str) -> tuple[policies.Rule, ...]:
    if name == _LAST_ROWS:
        return ()
    return _read(os.path.join(_HERE, f"{_LAST_ROWS}.yaml"), _LAST_ROWS).rules


def _words(enum: Any) -> shapes.Choice:
    return shapes.Choice(tuple(str(member) for member in enum), enum)


def _set_of(enum: Any) -> shapes.Listing:
    return shapes.Listing(_words(enum), bare=True)


def _rule(**keys: Any) -> policies.Rule:
    if keys["same"] is policies.Same.CAUSES and not (keys["after"] and keys["cause"]):
        raise ValueError("same: causes needs both `after` and `cause`")
    return policies.Rule(
        action=keys["action"],
        causes=frozenset(keys["cause"]),
        scopes=frozenset(keys["scope"]),
        advice=frozenset(keys["advice"]),
        after=keys["after"],
        same=keys["same"],
        after_load=keys["after_load"],
        checkpoints=keys["checkpoints"],
        lost_over_s=keys["lost_over"],
        disk=keys["disk"],
        counts=keys["counts"],
        end=keys["end"],
    )


_RULE = shapes.Fields(
    {
        "cause": shapes.Key(_set_of(failures.Cause), (), "causes of the verdict"),
        "scope": shapes.Key(_set_of(failures.Scope), (), "scopes of the verdict"),
        "advice": shapes.Key(_set_of(failures.Action), (), "what the verdict says would help"),
        "after": shapes.Key(
            shapes.Number(0, 1000),
            0,
            "n: the row holds from end n + 1 of the same root at the same step without a new checkpoint",
        ),
        "same": shapes.Key(
            _words(policies.Same), policies.Same.ROOT, "what `after` counts as the same", "root"
        ),
        "after_load": shapes.Key(
            shapes.Number(0, 1000), 0, "ends in a row, right after loading the same checkpoint"
        ),
        "checkpoints": shapes.Key(shapes.Flag(), None, "whether a checkpoint directory is known"),
        "lost_over": shapes.Key(shapes.Duration(), None, "more work than this would be repeated"),
        "disk": shapes.Key(_words(policies.Disk), None, "whose disk is full: the run's own, or another"),
        "action": shapes.Key(_words(failures.Action), shapes.REQUIRED, "what is done"),
        "counts": shapes.Key(shapes.Flag(), default=True, about="false: free after progress"),
        "end": shapes.Key(shapes.Flag(), default=False, about="whether a live attempt is ended for it"),
    },
    _rule,
)

_BUDGET = shapes.Fields(
    {
        "without_progress": shapes.Key(shapes.Number(0, 10_000), 5, "ends without a new complete checkpoint"),
        "per_day": shapes.Key(shapes.Number(0, 10_000), 20, "counted restarts in 24 h"),
    },
    policies.Budget,
)

_BACKOFF = shapes.Fields(
    {
        "first": shapes.Key(
            shapes.Duration(), 0.0, "before the first restart since the last checkpoint", "0s"
        ),
        "base": shapes.Key(shapes.Duration(), 10.0, "before the second", "10s"),
        "factor": shapes.Key(shapes.Number(1, 100, whole=False), 2.0, "growth of each next"),
        "jitter": shapes.Key(shapes.Number(0, 1, whole=False), 0.2, "share by which a delay may differ"),
        "cap": shapes.Key(shapes.Duration(), 600.0, "the longest delay", "10m"),
    },
    lambda **keys: backoff.Backoff(*(keys[word] for word in ("first", "base", "factor", "jitter", "cap"))),
)

_WAIT = shapes.Fields(
    {
        "first": shapes.Key(shapes.Duration(low=1), 60.0, "before the first look", "1m"),
        "cap": shapes.Key(shapes.Duration(low=1), 900.0, "between two looks, at most", "15m"),
        "at_most": shapes.Key(shapes.Duration(low=1), 86400.0, "then the run is held", "24h"),
    },
    lambda **keys: backoff.Patience(*(keys[word] for word in ("first", "cap", "at_most"))),
)

SHAPE = shapes.Fields(
    {
        "kind": shapes.Key(shapes.Choice(("policy",)), shapes.REQUIRED, "policy"),
        "version": shapes.Key(shapes.Number(1, 1), shapes.REQUIRED, "1"),
        "budget": shapes.Key(_BUDGET, policies.Budget(), "how many restarts"),
        "backoff": shapes.Key(_BACKOFF, backoff.Backoff(), "how long before a restart"),
        "wait": shapes.Key(_WAIT, backoff.Patience(), "how long for something that is missing"),
        "acts": shapes.Key(shapes.Flag(), default=True, about="false: only say what would be done"),
        "rules": shapes.Key(shapes.Listing(_RULE, at_most=500), shapes.REQUIRED, "first match wins"),
    }
)
