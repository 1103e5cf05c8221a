"""How commands of these modules are run; a test puts its own `run_with_tee` in its place."""

import subprocess
from collections.abc import Sequence
from typing import Any


def run_with_tee(command: Sequence[str], **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run an argument list with options of `subprocess.run`; whoever calls looks at the exit code.

    Raises OSError, subprocess.TimeoutExpired.
    """
    return subprocess.run([*command], check=False, **options)
