"""Train on real GPUs through `runward run`, and keep what Runward said of it.

    PYTHONPATH=src python3 tools/gpu_scenarios/through_run.py --out FOLDER

Each case runs on GPUs of its own, beside the others: they are one another's neighbours.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = sys.executable
TORCHRUN = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
CASES = {
    # name: (lane, ranks, fault, options of `runward run`, seconds until it is stopped)
    "run_healthy": ("two", 2, "none", [], 25),
    "run_hang_early": ("two", 2, "hang_rank", [], 75),
    "run_hang_ended": ("two", 2, "hang_rank", ["--stall-after", "45s"], 100),
    "run_killed_rank": ("two", 2, "kill_rank", [], 60),
    "run_deaf": ("two", 2, "deaf", [], 25),
    "run_idle": ("one", 1, "idle", ["--gpu-idle-after", "15s"], 90),
    "run_loader_bound": ("one", 1, "loader", ["--gpu-idle-after", "15s"], 50),
    "run_cuda_oom": ("one", 1, "oom", [], 60),
    "run_illegal_access": ("one", 1, "illegal", [], 60),
    "run_device_assert": ("one", 1, "assert", [], 60),
    "run_restart": ("other", 1, "illegal", ["--policy", "aggressive"], 60),
}


def runward(*words, timeout=60):
    done = subprocess.run(
        [PYTHON, "-m", "runward", *words], capture_output=True, text=True, timeout=timeout, check=False
    )
    return done.stdout


def go(name, out):
    _, ranks, fault, options, seconds = CASES[name]
    folder = out / name
    folder.mkdir(parents=True)
    argv = [*(TORCHRUN if ranks > 1 else [PYTHON]), str(HERE / "train.py"), "--fault", fault, "--at", "200"]
    if fault == "loader":
        argv += ["--at", "0", "--every", "2"]
    begun = time.monotonic()
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(
            [PYTHON, "-m", "runward", "run", "--name", name, "--grace", "5s", *options, "--", *argv],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            code: int | str = process.wait(seconds)
        except subprocess.TimeoutExpired:
            runward("stop", name)
            try:
                code = process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                code = "did not end"
    status = runward("status", name, "--json")
    (folder / "status.json").write_text(status)
    (folder / "events.jsonl").write_text(runward("events", name, "--json"))
    stacks = list(pathlib.Path(os.environ["RUNWARD_STATE_DIR"]).rglob(f"{name}*/**/stacks.txt"))
    for number, one in enumerate(stacks):
        (folder / f"stacks-{number}.txt").write_text(one.read_text())
    try:
        said = json.loads(status)
        verdict = {key: said.get(key) for key in ("state", "code", "verdict", "cause")}
    except ValueError:
        verdict = {"state": "no status"}
    print(name, "exit", code, round(time.monotonic() - begun, 1), "s", json.dumps(verdict)[:600], flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--lane", choices=("two", "one", "other"), required=True)
    args = parser.parse_args()
    for name, case in CASES.items():
        if case[0] == args.lane:
            try:
                go(name, args.out)
            except (OSError, subprocess.SubprocessError) as error:
                print(name, "failed:", repr(error), flush=True)


if __name__ == "__main__":
    main()
