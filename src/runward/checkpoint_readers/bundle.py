"""Packs the readers into one file that runs wherever Python 3.9 is: `python3 verify.pyz DIR --json`."""

from __future__ import annotations

import os
import zipfile
from typing import Final

_MAIN: Final = """\
import sys
from runward.checkpoint_readers.__main__ import main
sys.exit(main())
"""


def write(path: str) -> None:
    """Write the zipapp. Raises OSError."""
    here = os.path.dirname(os.path.abspath(__file__))
    temporary = f"{path}.{os.getpid()}.tmp"
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", _MAIN)
        archive.writestr("runward/__init__.py", "")
        for name in sorted(os.listdir(here)):
            if name.endswith(".py"):
                archive.write(os.path.join(here, name), f"runward/checkpoint_readers/{name}")
    os.replace(temporary, path)
