"""A command of ours as a person gives it: in a process of its own, to its end."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

_PATIENCE_S = 300.0


def runward(
    env: Mapping[str, str] | None, *argv: str, code: int | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """What `runward ARGV` said; it must end with `code`, where one is given. `more` is for `subprocess.run`."""
    done = subprocess.run(
        [sys.executable, "-m", "runward", *argv],
        env=env,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
        **more,
    )
    assert code is None or done.returncode == code, (argv, done.stdout, done.stderr)
    return done
