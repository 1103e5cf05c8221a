"""A small real training without dependencies: fits a line by gradient descent, saves, resumes, and can be told to die.

usage: demo_train.py --save DIR [--load CHECKPOINT] [--steps 60] [--save-every 10] [--step-time 0.05]
                     [--fault kill|partial|raise|hang|early|nan|deaf|segfault --at STEP] [--always] [--look]

A fault happens once: it leaves a mark beside the checkpoints, so that a second attempt goes on (`--always`: each time).
With `--look` the training looks for its newest checkpoint by itself, as many do.
"""

import argparse
import ctypes
import io
import json
import math
import os
import random
import signal
import sys
import time
import zipfile

FAULTS = ["kill", "partial", "raise", "hang", "early", "nan", "deaf", "segfault"]


def packed(step, weights):
    """One zip with checksums."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model.json", json.dumps(weights))
        archive.writestr("trainer.json", json.dumps({"step": step}))
    return buffer.getvalue()


def save(directory, step, weights):
    """Written beside and put in place by rename: a reader never sees half of it."""
    target = os.path.join(directory, f"step_{step}.ckpt")
    with open(target + ".tmp", "wb") as file:
        file.write(packed(step, weights))
        file.flush()
        os.fsync(file.fileno())
    os.rename(target + ".tmp", target)
    print(f"saved {target}", flush=True)


def load(path):
    with zipfile.ZipFile(path) as archive:
        weights = json.loads(archive.read("model.json"))
        step = json.loads(archive.read("trainer.json"))["step"]
    print(f"loaded {path} at step {step}", flush=True)
    return step, weights


def newest(directory):
    """The checkpoint with the highest step, whole or not; None when there is none."""
    names = [name for name in os.listdir(directory) if name.startswith("step_") and name.endswith(".ckpt")]
    steps = sorted(int(name[len("step_") : -len(".ckpt")]) for name in names)
    return os.path.join(directory, f"step_{steps[-1]}.ckpt") if steps else None


def fault(kind, args, step, weights):
    mark = os.path.join(args.save, ".fault-done")
    if os.path.exists(mark) and not args.always:
        return
    with open(mark, "w") as file:
        file.write(f"{kind} at step {step}\n")
    if kind == "partial":
        data = packed(step, weights)
        with open(os.path.join(args.save, f"step_{step}.ckpt"), "wb") as file:
            file.write(data[: len(data) // 2])
    if kind in {"kill", "partial"}:
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "raise":
        raise KeyError("labels")
    elif kind == "hang":
        time.sleep(3600)
    elif kind == "early":
        sys.exit(0)
    elif kind == "nan":
        weights[0] = math.nan
    elif kind == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif kind == "segfault":
        ctypes.string_at(0)


def main():
    parser = argparse.ArgumentParser(description="A small training that can be told to die.")
    parser.add_argument("--save", required=True)
    parser.add_argument("--load")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--step-time", type=float, default=0.05)
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--at", type=int, default=25)
    parser.add_argument("--always", action="store_true")
    parser.add_argument("--look", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.save, exist_ok=True)
    found = args.load or (newest(args.save) if args.look else None)
    first, weights = load(found) if found else (0, [0.0, 0.0])
    rng = random.Random(1)
    for step in range(first + 1, args.steps + 1):
        x = rng.uniform(-1, 1)
        error = weights[0] * x + weights[1] - (3 * x + 2)
        weights = [weights[0] - 0.2 * error * x, weights[1] - 0.2 * error]
        print(f"step {step}/{args.steps} loss {error * error:.6f}", flush=True)
        time.sleep(args.step_time)
        if args.fault and step == args.at:
            fault(args.fault, args, step, weights)
        if step % args.save_every == 0:
            save(args.save, step, weights)
    print("training is done", flush=True)


if __name__ == "__main__":
    main()
