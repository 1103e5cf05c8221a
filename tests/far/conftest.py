import os
import shutil

import pytest

import farboxes


@pytest.fixture(scope="module")
def net():
    found = farboxes.make()
    yield found
    found.close()
    shutil.rmtree(found.folder, ignore_errors=True)


@pytest.fixture
def env(net, tmp_path):
    path = f"{net.program(tmp_path / 'bin')}:{os.environ['PATH']}"
    return {
        **os.environ,
        "PATH": path,
        "RUNWARD_STATE_DIR": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
