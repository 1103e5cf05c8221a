"""The fixtures made anew by the torch of the test environment: what is committed is no memory of an old format.

The interpreter that has torch is `RUNWARD_TORCH_PYTHON`, else `.venv-torch`, else this one.
"""

import os
import pathlib
import subprocess
import sys

import pytest

from fixtures import damages

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("written_anew")]  # torch writes them once
ROOT = pathlib.Path(__file__).parents[2]
MAKER = ROOT / "tests" / "fixtures" / "make_checkpoints.py"
EXPECTED = {
    "torch_zip": ("torch_zip", "full"),
    "torch_zip_unsummed": ("torch_zip", "structure"),
    "torch_legacy": ("torch_zip", "structure"),
    "dcp": ("dcp", "full"),
    "loose": ("loose", "full"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with every format that torch alone writes, packed by the script."""
    target = tmp_path_factory.mktemp("made")
    done = subprocess.run(
        [_torch_python(), str(MAKER), str(target), *EXPECTED],
        capture_output=True,
        text=True,
        timeout=170,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return target


def _torch_python():
    places = [
        os.environ.get("RUNWARD_TORCH_PYTHON"),
        str(ROOT / ".venv-torch" / "bin" / "python"),
        sys.executable,
    ]
    for python in places:
        if python and pathlib.Path(python).exists():
            found = subprocess.run(
                [python, "-c", "import torch"], capture_output=True, timeout=120, check=False
            )
            if found.returncode == 0:
                return python
    if os.environ.get("CI") == "true":
        pytest.fail("no interpreter with torch: set RUNWARD_TORCH_PYTHON")
    pytest.skip("no interpreter with torch: set RUNWARD_TORCH_PYTHON")


@pytest.mark.parametrize("name", EXPECTED)
def test_what_torch_writes_now_reads_as_the_committed_one(name, made, tmp_path, monkeypatch):
    monkeypatch.setattr(damages, "PACKED", made)
    rows = damages.verdicts(damages.unpacked(name, tmp_path)).values()
    kind, depth = EXPECTED[name]
    assert [(row["state"], row["kind"], row["verified"], row["step"]) for row in rows] == [
        ("complete", kind, depth, 10),
        ("complete", kind, depth, 20),
    ]
