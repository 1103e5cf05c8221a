"""`python -m runward.compat.autoexp.manage_monitoring list|show|remove|dump-config`: the sessions of a directory."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runward.compat.autoexp import state_store


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; 1 for an unknown session, and for a session with jobs that is removed without --force."""
    given = _parser().parse_args(argv)
    root = Path(given.monitoring_state_dir)
    if given.command == "list":
        return _list(root)
    body = state_store.session(root, given.id)
    if body is None:
        known = ", ".join(one["session_id"] for one in state_store.sessions(root)) or "none"
        print(f"manage_monitoring: no session {given.id!r} in {root} (there are: {known})", file=sys.stderr)
        return 1
    match given.command:
        case "show":
            print(json.dumps(body, indent=2))
            return 0
        case "remove":
            return _remove(root, body, force=given.force)
        case _:
            return _dump(body, Path(given.output))


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("manage_monitoring", description="Look at monitoring sessions.")
    made.add_argument("--monitoring-state-dir", default="output/monitoring_state", metavar="DIR")
    verbs = made.add_subparsers(dest="command", required=True)
    verbs.add_parser("list", help="all sessions")
    verbs.add_parser("show", help="one session as JSON").add_argument("id")
    remove = verbs.add_parser("remove", help="delete a session's file")
    remove.add_argument("id")
    remove.add_argument("--force", action="store_true", help="even if it has jobs")
    dump = verbs.add_parser("dump-config", help="write the configuration of a session")
    dump.add_argument("id")
    dump.add_argument("--output", required=True, metavar="FILE")
    return made


def _list(root: Path) -> int:
    found = state_store.sessions(root)
    if not found:
        print(f"No monitoring sessions in {root}.")
    for body in found:
        jobs = state_store.jobs_of(body)
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(body.get("created_at") or 0.0)))
        print(f"{body['session_id']}  {at}  {body.get('project_name') or '-'}  {len(jobs)} job(s)")
    return 0


def _remove(root: Path, body: dict[str, Any], *, force: bool) -> int:
    jobs = state_store.jobs_of(body)
    if jobs and not force:
        names = ", ".join(job.name for job in jobs)
        print(f"manage_monitoring: session has {len(jobs)} job(s) ({names}); give --force", file=sys.stderr)
        return 1
    (root / f"{body['session_id']}.json").unlink(missing_ok=True)
    print(f"Removed session {body['session_id']}.")
    return 0


def _dump(body: dict[str, Any], output: Path) -> int:
    import yaml  # noqa: PLC0415 -- for this verb alone

    try:
        output.write_text(yaml.safe_dump(body.get("config") or {}, sort_keys=False), encoding="utf-8")
    except OSError as error:
        print(f"manage_monitoring: {output}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"Wrote {output}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
