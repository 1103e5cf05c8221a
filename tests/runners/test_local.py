"""Commands on this machine that cannot be started, each with its true reason."""

import os

import pytest

from runward import ports
from runward.runners import local


@pytest.mark.parametrize(("kind", "code"), [("folder", 127), ("file", 126), ("nothing", 127)])
def test_a_program_that_is_not_there_is_not_called_forbidden(kind, code, tmp_path) -> None:
    """A folder of the program's name, as one that may not be looked into, makes the kernel say `permission denied`."""
    if kind == "folder":
        (tmp_path / "no-such-tool").mkdir()
    elif kind == "file":
        (tmp_path / "no-such-tool").write_text("text")
    call = ports.Call(("no-such-tool",), deadline_s=10.0, env={**os.environ, "PATH": str(tmp_path)})
    assert local.Local().run(call).code == code
