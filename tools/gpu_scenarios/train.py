"""A small training that fails on demand: one GPU, or several under torchrun."""

import argparse
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

FAULTS = (
    "none",
    "hang_rank",
    "hang_all",
    "idle",
    "loader",
    "save",
    "evaluate",
    "oom",
    "illegal",
    "assert",
    "kill_rank",
    "deaf",
)


def main():
    args = parse()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    if args.fault == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if world > 1:
        dist.init_process_group("nccl")
    weight = torch.randn(args.size, args.size, device=device, dtype=torch.bfloat16)
    batch = torch.randn(args.size, args.size, device=device, dtype=torch.bfloat16)
    begun = time.perf_counter()
    for step in range(1, args.steps + 1):
        if step == args.at:
            fault(args, rank, world, device)
        if args.fault == "loader":
            time.sleep(0.5)
        for _ in range(args.products):
            batch = torch.nn.functional.normalize(batch @ weight, dim=1)
        if world > 1:
            dist.all_reduce(weight)
            weight /= world
        if step % args.every == 0:
            loss = float(batch.float().abs().mean())
            if rank == 0:
                ms = (time.perf_counter() - begun) / args.every * 1e3
                print(
                    f"iteration {step:8d}/{args.steps:8d} | step ms: {ms:.4f} | lm loss: {loss:.6E} |",
                    flush=True,
                )
            begun = time.perf_counter()


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=FAULTS, default="none")
    parser.add_argument("--at", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--products", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=45.0)
    return parser.parse_args()


def fault(args, rank, world, device):
    last = rank == world - 1
    print(f"rank {rank}: step {args.at}, fault {args.fault}", flush=True)
    if args.fault in {"hang_all", "idle", "deaf"} or (args.fault == "hang_rank" and last):
        time.sleep(100_000)
    elif args.fault in {"save", "evaluate"}:
        if rank == 0:
            save(args.seconds) if args.fault == "save" else evaluate(args.seconds)
        if world > 1:
            dist.barrier()
    elif args.fault == "oom":
        keep = []
        while True:
            keep.append(torch.empty(1 << 32, device=device, dtype=torch.uint8))
    elif args.fault == "illegal":
        illegal(device)
    elif args.fault == "assert":
        table = torch.nn.Embedding(10, 4, device=device)
        print(table(torch.tensor([11], device=device)).sum().item())
    elif args.fault == "kill_rank" and last:
        os.kill(os.getpid(), signal.SIGKILL)


def save(seconds):
    """Write a checkpoint slowly enough that the others wait for long."""
    print("saving checkpoint", flush=True)
    until, block = time.monotonic() + seconds, os.urandom(1 << 22)
    with open("checkpoint.tmp", "wb", buffering=0) as file:
        while time.monotonic() < until:
            file.write(block)
            if file.tell() >= 1 << 31:
                file.seek(0)
            time.sleep(0.02)
    os.replace("checkpoint.tmp", "checkpoint.pt")
    print("successfully saved checkpoint", flush=True)


def evaluate(seconds):
    until, batch = time.monotonic() + seconds, torch.randn(256, 256)
    while time.monotonic() < until:
        batch = torch.nn.functional.normalize(batch @ batch, dim=1)


def illegal(device):
    """Write far outside of an allocation, through a kernel that is compiled on the spot."""
    import triton
    import triton.language as tl

    @triton.jit
    def poke(pointer):
        tl.store(pointer + 1_000_000_000_000, 1.0)

    poke[(1,)](torch.zeros(1, device=device))
    torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())
