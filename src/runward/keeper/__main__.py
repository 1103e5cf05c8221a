"""Entry of a keeper: `python3 -I -S .../keeper/__main__.py ATTEMPT_DIR FD`.

FD is a pipe on which one line of JSON answers the starter. Everything is imported here, once: an upgrade
under a running keeper must not break a late import.
"""

from __future__ import annotations

import os
import sys
import types

if not __package__:  # started by its path, perhaps copied to a machine without the rest
    _parent = types.ModuleType("runward")
    _parent.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    sys.modules["runward"] = _parent

from runward.keeper import starting

if __name__ == "__main__":
    starting.main(sys.argv[1], int(sys.argv[2]))
