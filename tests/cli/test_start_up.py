"""What the quick commands load: a heavy import there would be felt at every `runward ps`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import runward

HEAVY = {
    "alembic", "ctypes", "docker", "hydra", "jinja2", "lightkube", "omegaconf", "psutil", "pydantic", "pyperscan",
    "prometheus_client", "requests", "rich", "sqlalchemy", "starlette", "textual", "uvicorn", "urllib3", "yaml", "asyncio", "multiprocessing", "xml", "http",
}  # fmt: skip
OWN_HEAVY = {"runward.core.run", "runward.core.events", "runward.core.engine", "runward.store.sqlite"}
"""Of ours what many classes make slow to load."""


def _loaded(tmp_path: Path, *args: str, code: int = 0) -> set[str]:
    program = (
        "import sys; from runward.cli import entry; code = entry.run(sys.argv[1:]);"
        "print('\\n'.join(sorted(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    env = {
        **os.environ,
        "RUNWARD_STATE_DIR": str(tmp_path / "state"),
        "PYTHONPATH": str(Path(runward.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("command", [("--help",), ("ps",), ("ps", "--json")])
def test_quick_commands_load_nothing_heavy(tmp_path: Path, command):
    modules = _loaded(tmp_path, *command)
    assert "runward.cli.entry" in modules
    assert not {name.partition(".")[0] for name in modules} & HEAVY
    assert not modules & OWN_HEAVY


@pytest.mark.parametrize("verb", ["status", "events", "logs", "stop", "restart", "diagnose"])
def test_who_asks_for_a_run_loads_neither_the_watch_nor_readers_of_checkpoints(tmp_path: Path, verb):
    modules = _loaded(tmp_path, verb, "nobody", code=3)
    assert not modules & {
        "runward.wiring.watching",
        "runward.checkpoint_readers.scanner",
        "yaml",
        "pickletools",
    }
    assert verb == "diagnose" or "runward.app.diagnose" not in modules


def test_a_run_that_tells_nobody_by_http_loads_nothing_of_it(tmp_path: Path):
    modules = _loaded(tmp_path, "run", "--dry-run", "--", "true")
    assert "runward.wiring.notifying" in modules
    assert not modules & {"http", "http.client", "ssl", "email"}


def test_help_loads_no_verb(tmp_path: Path):
    ours = {name for name in _loaded(tmp_path, "--help") if name.startswith("runward.")}
    assert ours <= {
        "runward.__main__",
        "runward.cli",
        "runward.cli.entry",
        "runward.core",
        "runward.core.errors",
    }


@pytest.mark.parametrize("verb", [("ps",), ("top", "--box", "--once", "--json")], ids=["ps", "top"])
def test_a_closed_output_is_no_traceback_and_no_place_for_our_files(verb, tmp_path) -> None:
    code = (
        "import os, sys; os.close(0); os.close(1); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    env = {
        **os.environ,
        "RUNWARD_STATE_DIR": str(tmp_path / "state"),
        "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
        "PYTHONPATH": str(Path(runward.__file__).parents[1]),
    }
    argv = [sys.executable, "-c", code, "-m", "runward", *verb]
    done = subprocess.run(argv, env=env, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_a_terminal_of_another_encoding_gets_the_page_in_its_own_characters(tmp_path) -> None:
    env = {
        **os.environ,
        "PYTHONIOENCODING": "latin-1",
        "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
        "PYTHONPATH": str(Path(runward.__file__).parents[1]),
    }
    argv = [sys.executable, "-m", "runward", "top", "--box", "--once"]
    done = subprocess.run(argv, env=env, capture_output=True, timeout=60, check=True)
    assert b"-- SYSTEM MEMORY --" in done.stdout
    assert b"\\u25" not in done.stdout
