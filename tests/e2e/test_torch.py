"""Real data-parallel training (torchrun, two ranks, gloo) dies in every way; one table says what must come of it."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import ROOT, Box, attempts
from waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.torch, pytest.mark.timeout(300)]
TRAIN = ROOT / "examples" / "torch_train.py"


def _torchrun() -> list[str]:
    """The torchrun of the interpreter that has PyTorch."""
    python = os.environ.get("RUNWARD_TEST_TORCH") or str(ROOT / ".venv-torch" / "bin" / "python")
    run = [python, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    if Path(python).exists():
        return run
    if os.environ.get("CI") == "true":
        pytest.fail(f"no PyTorch: {python} does not exist; `make environments TORCH=1` makes it")
    pytest.skip(f"{python} does not exist; `make environments TORCH=1` makes it")
    return run


@pytest.fixture
def torchrun() -> list[str]:
    """torchrun on a port of its own choice, so that tests can run side by side."""
    return _on_any_port()


def _on_any_port() -> list[str]:
    return [*_torchrun(), "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]


def _train(box: Box, torchrun: list[str], *flags: str) -> list[str]:
    return [*torchrun, str(TRAIN), "--save", str(box.ckpt), "--step-time", "0.02", *flags]


TABLE = {
    # fault of a rank that dies: (cause, step resumed from)
    "kill": ("killed", 20),
    "raise": ("exception", 20),
    "damage": ("killed", 10),
    "segfault": ("segfault", 20),
}


@pytest.mark.parametrize("fault", TABLE)
def test_a_rank_that_dies_is_explained_and_the_training_goes_on(box: Box, torchrun: list[str], fault: str):
    cause, step = TABLE[fault]
    status = box.train("--grace", "3s", command=_train(box, torchrun, "--fault", fault))
    verdict = _goes_on(status, cause, step)
    assert verdict["rank"] == 1, json.dumps(verdict)


def _goes_on(status: dict, cause: str, step: int) -> dict:
    """The first attempt's verdict; the second went on from `step` to the end."""
    assert status["state"] == "succeeded"
    first, second = status["attempts"]
    assert first["verdict"]["cause"] == cause, json.dumps(first["verdict"])
    assert first["decision"]["action"] == "restart"
    assert second["resumed_from"]["step"] == step
    assert second["first_step"] == step + 1
    assert second["recovered_after_s"] is not None
    return dict(first["verdict"])


STALLS = ("hang", "hang-all", "spin", "deaf", "stop")
_LIMIT = "60s"  # torchrun with two ranks may take half of it to start on a loaded box


@pytest.fixture(scope="module")
def stalled(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[str, Box]]:
    """A run of each fault that is asked for, all silent side by side: their limits are waited for once."""
    wanted = {
        item.callspec.params.get("fault") for item in request.session.items if hasattr(item, "callspec")
    }
    boxes: dict[str, Box] = {}
    for fault in (one for one in STALLS if one in wanted):
        boxes[fault] = box = Box(tmp_path_factory.mktemp("stalled"))
        command = _train(box, _on_any_port(), "--fault", fault)
        options = (*box.usual(), "--grace", "3s", "--stall-after", _LIMIT)
        box.start(*options, "--", *command, env={"RUNWARD_STALL__NO_LIFE": "30s"})
        # then the next one has the machine for its start
        wait_until(lambda box=box: "step 24/" in box.output(), f"{fault} trains", 150)
    yield boxes
    for box in boxes.values():
        box.close()


@pytest.mark.timeout(900)
@pytest.mark.xdist_group("stalled_torch")
@pytest.mark.parametrize("fault", STALLS)
def test_ranks_that_stand_still_are_ended_and_the_training_goes_on(stalled: dict[str, Box], fault: str):
    box = stalled[fault]
    box.ended(box.started[0], 0)
    box.nothing_left()
    _goes_on(box.status(), "hang", 20)


@pytest.mark.parametrize(
    ("fault", "cause", "state", "code"),
    [("oomtext", "gpu_oom", "held", 1), ("nan", "numerical_instability", "succeeded", 0)],
)
def test_a_fault_that_a_restart_cannot_mend_is_not_restarted(
    box: Box, torchrun: list[str], fault, cause, state, code
):
    status = box.train("--grace", "3s", command=_train(box, torchrun, "--fault", fault), rc=code)
    assert status["state"] == state
    assert [one[0] for one in attempts(status)] == [cause]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    if done.returncode:
        _missing(done.stderr)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def _missing(why: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why.strip())


@pytest.mark.root
def test_a_disk_that_the_training_itself_fills_is_held(box: Box, torchrun: list[str], small_disk: Path):
    box.ckpt = small_disk / "ckpt"
    flags = ("--fault", "disk", "--fill", str(small_disk))
    status = box.train("--grace", "3s", command=_train(box, torchrun, *flags), rc=1)
    assert status["state"] == "held"
    assert attempts(status) == [("disk_full", "change", None)]


@pytest.fixture
def memory_group() -> Iterator[Path]:
    group = Path("/sys/fs/cgroup/memory", f"runward-e2e-{os.getpid()}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(700 << 20))
    except OSError as error:
        _missing(f"no memory control group can be made here: {error}")
    yield group
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
    group.rmdir()


@pytest.mark.root
def test_a_rank_that_the_kernel_kills_for_memory_is_proven_by_the_groups_counter(
    box: Box, torchrun: list[str], memory_group: Path
):
    inner = shlex.join(_train(box, torchrun, "--fault", "oom"))
    command = ["/bin/sh", "-c", f"echo $$ > {memory_group}/cgroup.procs; exec {inner} {{resume}}"]
    status = box.train("--grace", "3s", command=command, rc=1)
    assert attempts(status) == [("host_oom", "change", None)]
    verdict = status["attempts"][0]["verdict"]
    assert verdict["certainty"] == "proven"
    assert status["state"] == "held"


def test_the_example_of_the_manual_works_to_the_letter(box: Box, torchrun: list[str]):
    """Typed as there: torchrun from PATH, relative paths, a template with a blank."""
    shutil.copy(TRAIN, box.work / "train.py")
    bin_dir = box.work / "bin"
    bin_dir.mkdir()
    (bin_dir / "torchrun").write_text(f'#!/bin/sh\nexec {shlex.join(torchrun[:3])} "$@"\n')
    (bin_dir / "torchrun").chmod(0o755)
    line = (
        "run --name demo --checkpoints ckpt/ --resume-arg '--load {path}' -- "
        "torchrun --nproc-per-node=2 train.py --save ckpt/ --fault kill"
    )
    path = f"{bin_dir}:{os.environ['PATH']}"
    process = box.start(*shlex.split(line)[1:], env={"PATH": path, "MASTER_PORT": "0"})
    box.ended(process, 0)
    box.nothing_left()
    status = box.status()
    first, second = status["attempts"]
    assert first["last_step"] == 25
    assert first["verdict"]["cause"] == "killed"
    assert first["verdict"]["certainty"] != "proven"
    assert first["verdict"]["rank"] == 1
    assert first["exit"] == {
        "code": 1,
        "signum": None,
        "seen": True,
    }  # torchrun's own; the rank's signal is in its table
    assert len(first["evidence"]) >= 3
    assert second["resumed_from"] == {"path": str(box.ckpt / "step_20"), "step": 20}
    assert second["last_step"] == 40
    text = box.cli("status", "demo").stdout
    assert "rank 1" in text
    assert "SIGKILL" in text
