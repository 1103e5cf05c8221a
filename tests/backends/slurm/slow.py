"""Runs that end by what takes a minute: a time limit, a signal before it, a credential that must run out first."""

import functools
import os
import socket
import subprocess
import sys
from pathlib import Path

import waiting
from backends.slurm import worlds

_ROOT = Path(__file__).parents[3]
_NODE = "--place-arg=--nodelist=n3"
_RESUMED = 'if [ "$1" = --load ]; then echo "step 5/5 loss: 0.1"; exit 0; fi\n'
_EATING = "x = bytearray(300 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(60)"


class Slow:
    """Starts every run at once; each is waited for by its own test."""

    def __init__(self, world: worlds.World) -> None:
        self.world = world
        world.env["RUNWARD_TICKS__SLURM"] = "2s"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        save = world.saving(self.checkpoints("limit") / "step_4.pt")
        self._start(
            "limit", f'{_RESUMED}echo "step 4/5 loss: 0.5"\n{save}\nsleep 600', "--place-arg=--time=1"
        )
        save = world.saving(self.checkpoints("warned") / "step_4.pt")
        told = f"stop() {{ {save}; exit 0; }}\ntrap stop TERM\n"
        head = "#SBATCH --time=1\n#SBATCH --signal=B:TERM@20\n"
        self._start("warned", f'{head}{_RESUMED}{told}echo "step 3/5 loss: 0.5"\nsleep 600 &\nwait')
        broken = 'echo "step 4/5 loss: 0.5"; echo "RuntimeError: NCCL error in: somewhere"; exit 1'
        again = 'if [ -n "$SLURM_RESTART_COUNT" ]; then echo "step 5/5 loss: 0.1"; exit 0; fi\n'
        self._start("again", again + broken, "--restart-by", "requeue")
        if os.path.exists(torch_python()):
            self._start(
                "torch",
                self._training(),
                "--place-arg=--nodes=1",
                "--place-arg=--ntasks=2",
                "--place-arg=--mem=6000",
            )
        self._start_bare()
        self._start("endless", 'echo "step 1/9 loss: 1"; sleep 600', "--max-runtime=15s", "--grace=1s")
        (world.folder / "eat.py").write_text(_EATING)
        eating = f"{sys.executable} {world.folder}/eat.py"
        self._start("memory", f'echo "step 1/9 loss: 1"; {eating}', "--place-arg=--mem=60")
        if world.cluster.groups.missing is None:
            self._start("step", f"srun --mpi=none {eating}", "--place-arg=--mem=60")

    def _start_bare(self) -> None:
        """Where accounting is off."""
        conf = str(self.world.cluster.without_accounting())
        save = self.world.saving(self.checkpoints("bare-limit") / "step_4.pt")
        text = f'{_RESUMED}echo "step 4/5 loss: 0.5"\n{save}\nsleep 600'
        self._start("bare-limit", text, "--place-arg=--time=1", SLURM_CONF=conf)
        broken = 'echo "step 4/5 loss: 0.5"; echo "RuntimeError: NCCL error in: somewhere"; exit 1'
        save = self.world.saving(self.checkpoints("bare-broken") / "step_4.pt")
        self._start("bare-broken", f"{_RESUMED}{save}\n{broken}", SLURM_CONF=conf)

    @functools.cache  # noqa: B019 -- one object a session
    def checkpoints(self, name: str) -> Path:
        """The directory of a run's checkpoints."""
        made = self.world.folder / f"ckpt-{name}"
        made.mkdir()
        return made

    def _training(self) -> str:
        """Two ranks under srun, one of which kills itself at step 25; a checkpoint every ten steps."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        told = "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS"
        where = f"MASTER_ADDR=127.0.0.1 MASTER_PORT={port}"
        train = f"{torch_python()} {_ROOT}/examples/torch_train.py --fault kill --save {self.checkpoints('torch')}"
        return f"""srun --mpi=none bash -c 'export {told} {where}; exec {train} "$@"' train "$@"\n"""

    def _start(self, name: str, text: str, *options: str, **more: str) -> None:
        own = ("--checkpoints", str(self.checkpoints(name)), "--resume-arg", "--load {path}")
        resumes = own if "--restart-by" not in options else ()
        script = str(self.world.script(text, f"{name}.sh"))
        named = f"--place-arg=--job-name={worlds.SLOW}"
        process = self.world.start(
            "submit", "--on", "slurm", "--name", name, named, _NODE, *resumes, *options, script, **more
        )
        self._processes[name] = process

    def ended(self, name: str) -> int:
        """Wait for a run; its exit code."""
        waiting.wait_until(
            lambda: self._processes[name].poll() is not None, f"{name}: {self.world.words()}", 300
        )
        return int(self._processes[name].returncode)


def torch_python() -> str:
    """The interpreter that has PyTorch."""
    return os.environ.get("RUNWARD_TEST_TORCH") or str(_ROOT / ".venv-torch" / "bin" / "python")
