"""A small real data-parallel training on CPU (gloo), of which a fault can be asked.

usage: torchrun --nproc-per-node=2 torch_train.py --save DIR [--load CHECKPOINT] [--steps 40] [--save-every 10]
       [--fault FAULT --at STEP --rank RANK]

Faults (once: a mark beside the checkpoints lets the next attempt go on; `--always` ignores the mark):
kill          SIGKILL one rank                     hang          one rank stops answering, the others wait
hang-all      every rank sleeps                    spin          one rank computes for ever
deaf          ranks ignore SIGTERM, one hangs      stop          one rank SIGSTOPs itself
raise         KeyError on one rank                 nan           the loss becomes NaN and stays so
disk          fill the disk at --fill              damage        cut the newest checkpoint, then kill
segfault      one rank reads address 0             oom           allocate until the memory cgroup kills
oomtext       raise what a GPU out of memory raises
"""

import argparse
import ctypes
import glob
import os
import shutil
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FAULTS = "kill hang hang-all spin deaf stop raise nan disk damage segfault oom oomtext".split()


def save(args, step, model, optimizer):
    """Rank 0 writes one folder, put in place by rename; the others wait."""
    if dist.get_rank() == 0:
        target = os.path.join(args.save, f"step_{step}")
        os.makedirs(target + ".tmp", exist_ok=True)
        state = {"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, os.path.join(target + ".tmp", "model.pt"))
        if os.path.isdir(target):  # a damaged one of an earlier attempt
            shutil.rmtree(target)
        os.rename(target + ".tmp", target)
        print(f"saved checkpoint {target}", flush=True)
    dist.barrier()


def load(path, model, optimizer):
    state = torch.load(os.path.join(path, "model.pt"), weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if dist.get_rank() == 0:
        print(f"loaded checkpoint {path} at step {state['step']}", flush=True)
    return state["step"]


def first_time(args):
    """Whether the fault is still due; decided before any rank leaves the mark."""
    mark = os.path.join(args.save, ".fault-done")
    due = args.always or not os.path.exists(mark)
    dist.barrier()
    if due and dist.get_rank() == 0:
        with open(mark, "w") as file:
            file.write("done\n")
    dist.barrier()
    return due


def damage(directory):
    newest = max(glob.glob(os.path.join(directory, "step_*")), key=lambda p: int(p.rsplit("_", 1)[1]))
    with open(os.path.join(newest, "model.pt"), "r+b") as file:
        file.truncate(os.path.getsize(file.name) // 2)
    os.kill(os.getpid(), signal.SIGKILL)


def fill(directory):
    with open(os.path.join(directory, "filler"), "wb") as file:
        while True:
            file.write(bytes(1 << 20))


def grow():
    held = []
    while True:
        held.append(bytearray(8 << 20))


def spin():
    while True:
        torch.rand(64, 64) @ torch.rand(64, 64)


def out_of_gpu_memory():
    raise torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
        "1.53 GiB is free."
    )


def on_one_rank(args):
    if args.fault == "raise":
        raise KeyError("labels")
    acts = {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
        "hang": lambda: time.sleep(3600),
        "deaf": lambda: time.sleep(3600),
        "spin": spin,
        "segfault": lambda: ctypes.string_at(0),
        "oom": grow,
        "damage": lambda: damage(args.save),
        "disk": lambda: fill(args.fill),
        "oomtext": out_of_gpu_memory,
    }
    acts[args.fault]()


def main():
    parser = argparse.ArgumentParser(description="A small data-parallel training that can be told to fail.")
    parser.add_argument("--save", required=True)
    parser.add_argument("--load")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--step-time", type=float, default=0.05)
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--at", type=int, default=25)
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--always", action="store_true")
    parser.add_argument("--fill", help="directory to fill for --fault disk")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds a collective may take")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if args.fault == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    dist.init_process_group("gloo", timeout=timedelta(seconds=args.timeout))
    os.makedirs(args.save, exist_ok=True)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    first = load(args.load, model, optimizer) if args.load else 0
    poison = False
    for step in range(first + 1, args.steps + 1):
        x = torch.randn(8, 16)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        if poison:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step}/{args.steps} loss {loss.item():.4f}", flush=True)
        time.sleep(args.step_time)
        if args.fault and step == args.at and first_time(args):
            poison = args.fault == "nan"
            if args.fault == "hang-all":
                time.sleep(3600)
            elif not poison and dist.get_rank() == args.rank:
                on_one_rank(args)
        if step % args.save_every == 0:
            save(args, step, model, optimizer)
    if dist.get_rank() == 0:
        print("training is done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
