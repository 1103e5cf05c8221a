"""`runward remote setup`: look at a box, then put Runward there over one connection; no root, no network there."""

import inspect
import json
import os
from dataclasses import dataclass
from typing import Any

from runward import __version__, ports
from runward.core import errors
from runward.wiring import far, packing

TOP = "~/.local/share/runward"
LINK = "~/.local/bin/runward"
WITHOUT = "runward patrol, wait, fleet and verify-transfer work all the same: they need a shell there"

_LOOK = r"""
for p in "$@" python3 python3.14 python3.13 python3.12 python3.11 python; do
  found=$(command -v "$p" 2>/dev/null) || continue
  said=$("$found" -c 'import sys
print("%d.%d.%d" % sys.version_info[:3])
if sys.version_info < (3, 11): sys.exit(3)
import ctypes, fcntl, hashlib, sqlite3, zipfile' 2>/dev/null)
  code=$?
  [ -n "$said" ] && [ $code -eq 3 ] && old="$old $found=$said"
  [ -n "$said" ] && [ $code -eq 1 ] && poor="$poor $found=$said"
  [ $code -eq 0 ] && { printf 'python=%s\nversion=%s\n' "$found" "$said"; break; }
done
printf 'old=%s\npoor=%s\n' "$old" "$poor"
top=$HOME/.local/share/runward
for v in "$top"/versions/*/; do [ -d "$v" ] && { v=${v%/}; printf 'have=%s\n' "${v##*/}"; }; done
own=$(command -v runward 2>/dev/null) && printf 'own=%s\n' "$own"
mkdir -p "$HOME" 2>/dev/null; [ -w "$HOME" ] || printf 'readonly=%s\n' "$HOME"
printf 'free=%s\n' "$(df -Pk -- "$HOME" 2>/dev/null | awk 'NR == 2 { print $4 }')"
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """A box before anything is done."""

    python: str | None
    version: str | None
    older: str
    """Pythons that are too old or lack parts of the standard library, with versions."""
    have: tuple[str, ...]
    """Versions of Runward that were set up there."""
    own: str | None
    """A `runward` on the PATH there."""
    free_bytes: int | None
    problem: str | None


def look(runner: ports.Runner, python: str | None) -> Seen:
    """One look. Raises ContactLost."""
    argv = ("/bin/sh", "-c", _LOOK, "sh", *((python,) if python else ()))
    done = runner.run(ports.Call(argv, deadline_s=60.0))
    said: dict[str, list[str]] = {}
    for line in done.text.splitlines():
        key, _, value = line.partition("=")
        said.setdefault(key, []).append(value)
    one = {key: values[-1] for key, values in said.items()}
    free = one.get("free", "")
    return Seen(
        one.get("python"),
        one.get("version"),
        (one.get("old", "") + one.get("poor", "")).strip(),
        tuple(said.get("have", ())),
        one.get("own"),
        int(free) * 1024 if free.isdigit() else None,
        f"{one['readonly']} cannot be written" if "readonly" in one else None,
    )


def setup(host: str, python: str | None, *, keep: int, dry_run: bool) -> dict[str, Any]:
    """Install on `host`, and keep so many versions there (0: all); what was found and done.

    Raises Unreachable, UsageError.
    """
    runner = far.runner(host)
    try:
        seen = look(runner, python)
        pack = packing.make(__version__)
        body = _plan(host, seen, pack)
        if body["problem"] or dry_run:
            return body
        return {**body, **_install(runner, seen, pack, keep)}
    except ports.ContactLost as lost:
        raise errors.Unreachable(errors.Problem(str(lost))) from None


def _plan(host: str, seen: Seen, pack: packing.Pack) -> dict[str, Any]:
    problem = seen.problem
    if seen.python is None:
        older = f" (there is {seen.older})" if seen.older else ""
        problem = f"no Python 3.11 or newer with its whole standard library there{older}; {WITHOUT}"
    elif seen.free_bytes is not None and seen.free_bytes < 12 * len(pack.data):
        problem = f"only {seen.free_bytes >> 20} MiB are free in the home directory there"
    return {
        "host": host,
        "version": pack.name,
        "bytes": len(pack.data),
        "python": seen.python,
        "python_version": seen.version,
        "path": f"{TOP}/versions/{pack.name}",
        "kept": [name for name in seen.have if name != pack.name],
        "removed": [],
        "own": seen.own,
        "left_out": list(pack.left_out),
        "action": "already" if pack.name in seen.have else "would_install",
        "problem": problem,
        "link": None,
        "at_boot": None,
    }


def _install(runner: ports.Runner, seen: Seen, pack: packing.Pack, keep: int) -> dict[str, Any]:
    from runward.wiring import far_install

    words = (TOP, pack.name, pack.digest, LINK, str(keep))
    argv = (seen.python or "", "-I", "-c", inspect.getsource(far_install), *words)
    done = runner.run(ports.Call(argv, stdin=pack.data, deadline_s=600.0))
    try:
        told: dict[str, Any] = json.loads(done.text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        why = done.stderr.decode("utf-8", "replace").strip()[-300:] or f"exit {done.code}"
        return {"action": "failed", "problem": f"the installation there said nothing: {why}"}
    if told.get("action") == "failed":
        return {"action": "failed", "problem": str(told.get("why"))}
    return told


def tell(body: dict[str, Any]) -> list[str]:
    """What was found and done, in words."""
    rows = [f"python there: {body['python'] or 'none'} {body['python_version'] or ''}".rstrip()]
    if body["problem"]:
        return [
            *rows,
            f"{body['action'] if body['action'] == 'failed' else 'not installed'}: {body['problem']}",
        ]
    words = {
        "would_install": f"would put {body['bytes'] >> 10} KiB there as {body['path']}",
        "installed": f"installed {body['version']} as {body['path']}",
        "already": f"{body['version']} is there already: {body['path']}",
    }
    rows.append(words[body["action"]])
    rows += [f"kept: {os.path.join(TOP, 'versions', name)}" for name in body["kept"]]
    rows += [f"removed: {os.path.join(TOP, 'versions', name)}" for name in body["removed"]]
    rows += (
        [f"left out, compiled for this machine: {', '.join(body['left_out'])}"] if body["left_out"] else []
    )
    rows += [str(body["link"])] if body["link"] else []
    rows += [f"taking up its runs at each boot, by cron: {body['at_boot']}"] if body["at_boot"] else []
    if body["own"] and not str(body["own"]).endswith(LINK[2:]):
        rows.append(f"the box's own {body['own']} comes first and was left alone")
    return rows
