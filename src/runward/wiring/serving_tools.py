"""`runward mcp`: a tool server over stdin and stdout for coding agents; it reads, and acts only when started so."""

import subprocess
import sys
from typing import Any

from runward.core import errors

_OUTPUT = 60_000
_WAIT_S = 540.0


def serve(*, allow_actions: bool) -> None:
    """Serve until the client closes. Raises UsageError when the `mcp` extra is missing."""
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError:
        raise errors.UsageError(
            errors.Problem("the mcp package is not installed", next_step="pip install 'runward[mcp]'")
        ) from None
    server = MCPServer("runward", instructions="Look first; quote evidence; unknown is an answer.")
    for tool in (list_runs, run_status, why_did_it_end, run_events, run_log, list_checkpoints, patrol, wait):
        server.tool()(tool)
    if allow_actions:
        for tool in (stop_run, restart_run):
            server.tool()(tool)
    server.run("stdio")


def list_runs() -> str:
    """All runs known on this machine, as JSON."""
    return _ask("ps", "--json")


def run_status(run: str) -> str:
    """One run: attempts, causes, decisions, checkpoints, as JSON."""
    return _ask("status", "--json", "--", run)


def why_did_it_end(target: str) -> str:
    """Cause of the last end of a run or log file, with the lines that prove it, as JSON."""
    return _ask("diagnose", "--json", "--", target)


def run_events(run: str) -> str:
    """What was journalled about a run, as JSON lines; the newest 60 kB."""
    return _ask("events", "--json", "--", run)


def run_log(run: str) -> str:
    """The last 60 kB of the output of a run."""
    return _ask("logs", "--", run)


def list_checkpoints(directory: str) -> str:
    """Checkpoints of a directory with their state, as JSON."""
    return _ask("checkpoints", "ls", "--json", "--", directory)


def patrol(
    targets: list[str], match: str = "train", log: str = "", marker: str = "", checkpoints: str = ""
) -> str:
    """One look at far boxes (ssh:HOST/ or names of the inventory), as JSON lines. Reads only.

    `match`: regular expression for the command line that is the run. Paths there: its own log, the marker that
    is there when all is done, the checkpoint directory.
    """
    paths = {"log": log, "marker": marker, "checkpoints": checkpoints}
    words = [f"--{name}={path}" for name, path in paths.items() if path]
    return _ask("patrol", "--json", f"--match={match}", *words, "--", *targets)


def wait(target: str, until: str = "done", timeout_s: float = 300.0) -> str:
    """Block until a condition holds, at most 540 s: done, failed, step>=N, exists:PATH or a regular expression."""
    seconds = min(max(timeout_s, 0.0), _WAIT_S)
    return _ask("wait", f"--until={until}", f"--timeout={seconds}s", "--poll=10s", "--json", "--", target)


def stop_run(run: str) -> str:
    """ACTION: asks the run to end with its grace; a checkpoint that the training writes on SIGTERM is waited for."""
    return _ask("stop", "--no-wait", "--", run)


def restart_run(run: str) -> str:
    """ACTION: starts a new attempt of a held or ended run, from its newest complete checkpoint."""
    return _ask("restart", "--", run)


def _ask(*argv: str) -> str:
    """What the command line says; its messages and exit code when it is not 0."""
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        [sys.executable, "-m", "runward", *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_WAIT_S + 50,
        check=False,
    )
    out: Any = done.stdout[-_OUTPUT:].decode("utf-8", "replace")
    if done.returncode == 0:
        return str(out)
    err = done.stderr[-4000:].decode("utf-8", "replace")
    return f"{out}\nexit {done.returncode}: {err}".strip()
