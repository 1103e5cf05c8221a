"""Real runs of the example trainer as labelled cases: `PYTHON tests/corpus/record.py OUT.jsonl [NAME ...]`.

PYTHON has torch. Two ranks on the CPU are made to fail in each known way; the log is what torchrun printed, with paths
and the host's name replaced. `trainer_runs.jsonl` beside this file was written by it.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAST = ["--step-time", "0.01"]
RUNS = {
    "done": ([], "none", ["none"], None),
    "kill": (["--fault", "kill"], ["killed", "host_oom"], ["restart", "hold", "change"], 1),
    "hang": (
        ["--fault", "hang", "--timeout", "12"],
        ["hang", "distributed_timeout"],
        ["restart", "restart_elsewhere"],
        1,
    ),
    "spin": (
        ["--fault", "spin", "--timeout", "12"],
        ["hang", "distributed_timeout"],
        ["restart", "restart_elsewhere"],
        1,
    ),
    "deaf": (
        ["--fault", "deaf", "--timeout", "12"],
        ["hang", "distributed_timeout"],
        ["restart", "restart_elsewhere"],
        1,
    ),
    "stop": (["--fault", "stop", "--timeout", "12"], ["hang", "distributed_timeout"], ["restart"], 1),
    "hang_all": (["--fault", "hang-all"], ["hang"], ["restart", "hold"], None),
    "raise": (["--fault", "raise"], "exception", ["hold", "change"], 1),
    "nan": (
        ["--fault", "nan", "--steps", "400000"],
        "numerical_instability",
        ["hold", "change", "resume_previous"],
        None,
    ),
    "nan_done": (["--fault", "nan"], "numerical_instability", ["hold", "change", "resume_previous"], None),
    "segfault": (["--fault", "segfault"], "segfault", ["restart", "hold", "change"], 1),
    "oomtext": (["--fault", "oomtext"], "gpu_oom", ["change", "hold"], 1),
    "oom": (["--fault", "oom"], "host_oom", ["change", "hold"], 1),
    "disk": (["--fault", "disk"], "disk_full", ["hold", "change", "wait"], 1),
    "damage": (["--fault", "damage"], ["killed", "host_oom"], ["restart", "hold", "change"], 1),
    "damaged_load": ([], "checkpoint_corrupt", ["resume_previous", "hold", "change"], None),
    "wrong_option": (["--stepz", "4"], "config_error", ["change", "hold"], None),
    "port_taken": ([], ["rendezvous", "config_error"], ["change", "restart", "hold"], None),
}
LONGEST = 4000
"""Characters that are kept of a run that still lives."""
SILENT = {"hang_all": {"process": "running", "silent_s": 5400}, "nan": {"process": "running"}}
"""What is known of a run that still lives; the others end by themselves."""


def run(name: str, folder: Path) -> dict[str, object]:
    options = RUNS[name][0]
    save = folder / "ckpt"
    if name == "damaged_load":
        (save / "step_20").mkdir(parents=True)
        (save / "step_20" / "model.pt").write_bytes(b"PK\x03\x04" + bytes(4000))
        options = ["--load", str(save / "step_20")]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    port = "29555" if name == "port_taken" else "29561"
    command += [f"--master-port={port}", str(ROOT / "examples/torch_train.py"), "--save", str(save)]
    with surroundings(name, folder) as (before, more):
        return ended(name, folder, [*before, *command, *FAST, *options, *more], int(port))


def ended(name: str, folder: Path, command: list[str], port: int) -> dict[str, object]:
    _, causes, actions, rank = RUNS[name]
    holder = taken(port) if name == "port_taken" else None
    text, code = output(command, 45 if name in SILENT else 90)
    if holder is not None:
        holder.kill()
    causes = causes if isinstance(causes, list) else [causes]
    known = SILENT.get(name, {"exit_code": code})
    if name == "oom":
        fact = {"source": "cgroup", "fact": "oom_kill", "detail": "memory.oom_control: oom_kill 1"}
        known = {**known, "witnesses": [fact]}
    return {
        "id": f"trainer-{name}",
        "source": "trainer",
        "framework": "pytorch gloo",
        "context": known,
        "log": anonymous(text, folder)[: LONGEST if name in SILENT else None],
        "cause": causes[0],
        "accept_causes": causes,
        "action": actions[0],
        "accept_actions": actions,
        "culprit_rank": rank,
        "evidence": "",
    }


@contextlib.contextmanager
def surroundings(name: str, folder: Path) -> Iterator[tuple[list[str], list[str]]]:
    """What the command begins and ends with: a memory cgroup (v1, as root), a small disk (a tmpfs)."""
    if name == "disk":
        small = folder / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], check=True)
        yield [], ["--fill", str(small)]
        subprocess.run(["umount", str(small)], check=True)
    elif name == "oom":
        group = Path("/sys/fs/cgroup/memory/runward-corpus")
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(1400 << 20))
        script = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        yield ["sh", "-c", script, "sh"], []
        group.rmdir()
    else:
        yield [], []


def output(command: list[str], seconds: float) -> tuple[str, int]:
    """What it printed, and its exit code. A run that lives longer is ended, and its end is not in the text."""
    with tempfile.TemporaryFile() as log:
        started = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            code = started.wait(seconds)
            size = None
        except subprocess.TimeoutExpired:
            code, size = -9, os.fstat(log.fileno()).st_size
            os.killpg(started.pid, signal.SIGTERM)
            started.wait()
        log.seek(0)
        return log.read(size if size is not None else -1).decode("utf-8", "replace"), code


def taken(port: int) -> "subprocess.Popen[bytes]":
    """A stranger that holds the port."""
    script = f"import socket,time;s=socket.create_server(('',{port}));print(1,flush=True);time.sleep(60)"
    started = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.readline()
    return started


def anonymous(text: str, folder: Path) -> str:
    for path, word in [
        (str(folder), "/data/run"),
        (str(ROOT), "/opt/runward"),
        (sys.prefix, "/opt/env"),
        (os.uname().nodename, "node-1"),
    ]:
        text = text.replace(path, word)
    text = re.sub(r"\n\*{5,}\n.*?OMP_NUM_THREADS.*?\n\*{5,}\n", "\n", text, flags=re.DOTALL)
    return re.sub(r"(?m)^(.*frame #\d+: ).*\n", "", text)


def main(out: str, names: list[str]) -> None:
    with open(out, "w", encoding="utf-8") as file:
        for name in names or RUNS:
            with tempfile.TemporaryDirectory() as folder:
                file.write(json.dumps(run(name, Path(folder))) + "\n")
                file.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
