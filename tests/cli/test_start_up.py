"""What the quick commands load: a heavy import there would be felt at every `runward ps`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import runward

HEAVY = {
    "alembic", "ctypes", "docker", "hydra", "jinja2", "lightkube", "omegaconf", "psutil", "pydantic", "pyperscan",
    "requests", "rich", "sqlalchemy", "textual", "urllib3", "yaml", "asyncio", "multiprocessing", "xml", "http",
}  # fmt: skip


def _loaded(tmp_path: Path, *args: str) -> set[str]:
    code = (
        "import sys; from runward.cli import entry; code = entry.run(sys.argv[1:]);"
        "print('\\n'.join(sorted(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    env = {
        **os.environ,
        "RUNWARD_STATE_DIR": str(tmp_path / "state"),
        "PYTHONPATH": str(Path(runward.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *args], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("command", [("--help",), ("ps",), ("ps", "--json")])
def test_quick_commands_load_nothing_heavy(tmp_path: Path, command):
    modules = _loaded(tmp_path, *command)
    assert "runward.cli.entry" in modules
    assert not {name.partition(".")[0] for name in modules} & HEAVY


def test_help_loads_no_verb(tmp_path: Path):
    ours = {name for name in _loaded(tmp_path, "--help") if name.startswith("runward.")}
    assert ours <= {
        "runward.__main__",
        "runward.cli",
        "runward.cli.entry",
        "runward.core",
        "runward.core.errors",
    }
