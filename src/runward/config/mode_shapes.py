"""Shapes of restart configurations: a policy for each mode."""

import contextlib
from dataclasses import dataclass
from typing import Any

from runward.config import documents, objects, shapes
from runward.core import mode_policies

_RETRIES = shapes.Number(0, 10_000)
_WORDS = shapes.Listing(shapes.Text(), at_most=1000, bare=True)


def _selective(**keys: Any) -> mode_policies.Selective:
    lists = ("restart_on_error_types", "restart_on_subsystems", "restart_on_signals", "exclude_error_types")
    return mode_policies.Selective(**{**keys, **{word: frozenset(keys[word]) for word in lists}})


IMPLEMENTATION = objects.Object(
    {
        "NoRestartPolicy": shapes.Fields(
            {"message": shapes.Key(shapes.Text(), "No restart configured", "the reason that is given")},
            mode_policies.Never,
        ),
        "AlwaysRestartPolicy": shapes.Fields(
            {
                "reason": shapes.Key(shapes.Text(), "Retrying job", "the reason that is given"),
                "max_retries": shapes.Key(shapes.Optional(_RETRIES), None, "restarts; null: without end"),
            },
            mode_policies.Always,
        ),
        "SelectiveRestartPolicy": shapes.Fields(
            {
                "max_retries": shapes.Key(_RETRIES, 3, "restarts of this mode"),
                "restart_on_error_types": shapes.Key(_WORDS, (), "restart on any of these"),
                "restart_on_subsystems": shapes.Key(_WORDS, (), "restart on any of these"),
                "restart_on_signals": shapes.Key(_WORDS, (), "restart on any of these"),
                "exclude_error_types": shapes.Key(_WORDS, (), "never restart on any of these"),
                "default_action": shapes.Key(
                    shapes.Choice(("restart", "stop")), "stop", "what no list names"
                ),
                "restart_reason": shapes.Key(shapes.Text(), "Transient failure detected, restarting", ""),
                "stop_reason": shapes.Key(shapes.Text(), "Non-recoverable error, stopping", ""),
            },
            _selective,
        ),
    },
    partial=True,
)

_MODE_POLICY = shapes.Fields(
    {
        "implementation": shapes.Key(IMPLEMENTATION, shapes.REQUIRED, "the policy of that mode"),
        "enabled": shapes.Key(shapes.Flag(), True, "false removes a policy of the preset"),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies by mode."""

    def read(
        self, value: documents.Value, path: str, problems: shapes.Problems
    ) -> dict[mode_policies.Mode, mode_policies.Implementation]:
        if not isinstance(value.data, dict):
            raise problems.add(value, path, f"must be a list of policies, is {value.kind}")
        result, wrong = {}, False
        modes = shapes.Choice(tuple(str(mode) for mode in mode_policies.Mode), mode_policies.Mode)
        for word, item in value.data.items():
            below = shapes.join(path, word)
            mode = keys = None
            with contextlib.suppress(shapes.Invalid):
                mode = modes.read(documents.Value(word, item.mark), below, problems)
            with contextlib.suppress(shapes.Invalid):
                keys = _MODE_POLICY.read(item, below, problems)
            if mode is None or keys is None:
                wrong = True
            elif keys["enabled"]:
                result[mode] = keys["implementation"]
        if wrong:
            raise shapes.Invalid(path)
        return result

    def schema(self) -> dict[str, Any]:
        return objects.named_list(_MODE_POLICY.schema(), "mode")


RESTART = shapes.Fields(
    {
        "policies": shapes.Key(Policies(), {}, "a policy for each mode; none: no restart"),
        "counting": shapes.Key(
            shapes.Choice(tuple(str(word) for word in mode_policies.Counting), mode_policies.Counting),
            mode_policies.Counting.EACH_MODE,
            "each_mode: N restarts for every mode; submissions: one counter with the first submission in it",
        ),
    }
)
