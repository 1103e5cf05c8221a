"""`python3 verify.pyz DIR [--json] [--structure]`: the verdicts where Runward is not installed.

Exit 0: a checkpoint is complete and none is broken. 1: one is damaged, partial or unreadable, or none is
complete. 2: wrong usage. 3: no such directory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from runward.checkpoint_readers import scanner

_BROKEN = frozenset({"damaged", "partial", "unreadable"})


def main(argv: Sequence[str] | None = None) -> int:
    """Scan one directory, print the rows; the exit code of the module's docstring."""
    parser = argparse.ArgumentParser(prog="verify", description="Which checkpoints of DIR are complete?")
    parser.add_argument("directory", metavar="DIR")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--structure", action="store_true", help="read no checksums")
    options = parser.parse_args(argv)
    if not os.path.isdir(options.directory):
        sys.stderr.write(f"verify: {options.directory}: no such directory\n")
        return 3
    report = scanner.scan(options.directory, depth="structure" if options.structure else "full")
    if options.json:
        sys.stdout.write(json.dumps(report, indent=1) + "\n")
    else:
        for row in report["checkpoints"]:
            sys.stdout.write(line(row) + "\n")
        if report["problem"]:
            sys.stderr.write(f"verify: {report['directory']}: {report['problem']}\n")
    return verdict(report)


def line(row: dict[str, Any]) -> str:
    """One checkpoint for people."""
    depth = "" if row["state"] != "complete" else {"structure": " (structure only)"}.get(row["verified"], "")
    why = f": {row['reason']}" if row["reason"] else ""
    aside = " [quarantined]" if row["quarantined"] else ""
    return f"{row['name']}  {row['state']}{depth}{aside}{why}".encode("utf-8", "replace").decode()


def verdict(report: dict[str, Any]) -> int:
    """0 when one is complete and none is broken, else 1."""
    rows = [row for row in report["checkpoints"] if not row["quarantined"]]
    if report["problem"] or not any(row["state"] == "complete" for row in rows):
        return 1
    return int(any(row["state"] in _BROKEN for row in rows))


if __name__ == "__main__":
    sys.exit(main())
