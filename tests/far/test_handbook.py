"""The handbook of a run that has ended."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.e2e


def test_a_handbook_names_state_and_next_commands(tmp_path):
    env = {**os.environ, "RUNWARD_STATE_DIR": str(tmp_path / "state")}

    def runward(*argv):
        return subprocess.run(
            [sys.executable, "-m", "runward", *argv],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert runward("run", "--name", "demo", "--", "true").returncode == 0
    for words in (["demo"], ["--all"]):
        done = runward("handbook", *words)
        assert "# demo: succeeded" in done.stdout, done.stderr
        assert "runward status demo" in done.stdout
    assert runward("handbook").returncode == 2
    assert runward("handbook", "none").returncode == 3
