"""Looks into a pod or a far box by its own python3: checkpoints, NCCL's lines; nothing is installed there."""

import json
import os
import shlex
import tempfile

from runward import ports
from runward.checkpoint_readers import bundle
from runward.core import checkpoints
from runward.probes import checkpoints as probe
from runward.runners import local
from runward.runners import pod as runners

_NCCL = """
import glob, json, os, sys
base = os.environ.get("RAY_TMPDIR", "/tmp") + "/ray/session_latest/logs/"
found = {}
paths = [path for name in ("worker*.out", "worker*.err", "job-driver-*.log") for path in sorted(glob.glob(base + name))]
for path in paths[:512]:
    try:
        with open(path, "rb") as file:
            data = file.read(8 << 20)
    except OSError:
        continue
    lines = [line for line in data.splitlines() if b"NET/" in line or b"Using network " in line]
    if lines:
        found[os.path.basename(path)] = [line.decode("utf-8", "replace")[:400] for line in lines[:200]]
json.dump(found, sys.stdout)
"""
_SCAN = """
import json, os, sys, tempfile
with tempfile.NamedTemporaryFile(suffix=".pyz") as file:
    file.write(sys.stdin.buffer.read())
    file.flush()
    sys.path.insert(0, file.name)
    from runward.checkpoint_readers import scanner
    where = os.path.expanduser(sys.argv[1])
    json.dump(scanner.scan(where, depth=sys.argv[2]), sys.stdout)
"""
LOOK_S = 120.0
"""How long a look at a directory may take, but for one that reads everything."""
OUT = 64 << 20
"""At most so many bytes of an answer are taken."""


def open_pod(pod: str, namespace: str | None) -> runners.Pod:
    """The way into a pod; KUBECTL in the environment names another command. Raises UsageError."""
    kubectl = tuple(shlex.split(os.environ.get("KUBECTL", "kubectl")))
    return runners.Pod(local.Local(), pod, namespace, kubectl=kubectl)


def named(where: str) -> runners.Pod:
    """The pod of `NAMESPACE/POD`, or of `POD` in the namespace of the user's context. Raises UsageError."""
    namespace, _, name = where.rpartition("/")
    return open_pod(name, namespace or None)


def python(
    runner: ports.Runner, script: str, *argv: str, stdin: bytes = b"", deadline_s: float = 60.0
) -> str:
    """What a script prints there. Raises ContactLost when it could not be run or failed."""
    done = runner.run(ports.Call(("python3", "-c", script, *argv), stdin, deadline_s, OUT))
    if done.timed_out:
        raise ports.ContactLost(f"{runner.name}: no answer within {deadline_s:.0f} s")
    if not done.ok:
        words = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise ports.ContactLost(f"{runner.name}: {words or done.code}")
    return done.text


def nccl_lines(runner: ports.Runner) -> dict[str, list[str]]:
    """Lines of NCCL about its network in Ray's logs there, by log. Raises ContactLost."""
    text = python(runner, _NCCL, deadline_s=30.0)
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise ports.ContactLost(f"{runner.name}: no list of lines, but {text[:200]!r}") from error
    return {str(name): [str(line) for line in lines] for name, lines in found.items()}


def checkpoints_in(runner: ports.Runner, directory: str, depth: str = "structure") -> checkpoints.Listing:
    """A directory as our readers see it there. Raises ContactLost.

    `depth` is names, structure, full or newest (checksums of the newest complete one); full may take an hour,
    newest eight minutes, the others two.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "readers.pyz")
        bundle.write(path)
        with open(path, "rb") as file:
            limit = {"full": 3600.0, "newest": 480.0}.get(depth, 120.0)
            text = python(runner, _SCAN, directory, depth, stdin=file.read(), deadline_s=limit)
    try:
        return probe.from_report(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise ports.ContactLost(f"{runner.name}: {directory}: no listing, but {text[:200]!r}") from error
