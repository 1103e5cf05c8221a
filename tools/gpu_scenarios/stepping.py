"""A training on one GPU, else on the CPU, that switches its watchers off and on every so many steps.

python3 stepping.py VICTIMS OUT [--blocks 40] [--steps 200] [--seconds 400]

VICTIMS is a file with one pid a line, waited for; they are suspended in the B segments and run in the A segments.
OUT gets a line with the ratio of each block, ABBA and BAAB in turn, as it comes: step time watched (A) over alone (B).
"""

import argparse
import os
import pathlib
import signal
import time

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WARM = 10
"""Steps of each segment that are not counted: those which ran while the watchers were being switched."""


def main():
    args = parse()
    work = Work(args.size, args.products)
    for _ in range(300):
        work.step()
    while not args.victims.exists():
        work.step()
    pids = [int(line) for line in args.victims.read_text().split()]
    until = time.monotonic() + args.seconds
    with args.out.open("w") as out:
        for block in range(args.blocks):
            first = block % 2 == 0
            order = (first, not first, not first, first)
            taken = [segment(work, pids, args.steps, on=on) for on in order]
            watched, alone = (
                sum(t for t, on in zip(taken, order, strict=True) if on is way) for way in (True, False)
            )
            print(watched / alone, *taken, file=out, flush=True)
            if time.monotonic() > until:
                break
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def segment(work, pids, steps, *, on):
    """Seconds a step, on average."""
    for pid in pids:
        os.kill(pid, signal.SIGCONT if on else signal.SIGSTOP)
    for _ in range(WARM):
        work.step()
    work.wait()
    began = time.perf_counter()
    for _ in range(steps):
        work.step()
    work.wait()
    return (time.perf_counter() - began) / steps


class Work:
    """Matrix products with a normalisation between; a log line each tenth step."""

    def __init__(self, size, products):
        self.weight, self.batch = (
            torch.randn(size, size, device=DEVICE, dtype=torch.bfloat16) for _ in range(2)
        )
        self.products, self.done = products, 0

    def wait(self):
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    def step(self):
        for _ in range(self.products):
            self.batch = torch.nn.functional.normalize(self.batch @ self.weight, dim=1)
        self.done += 1
        if self.done % 10 == 0:
            self.wait()
            print(f"step {self.done} loss 0.5", flush=True)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("victims", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no block begins after so long")
    parser.add_argument("--size", type=int, default=4096 if DEVICE == "cuda" else 128)
    parser.add_argument("--products", type=int, default=30)
    return parser.parse_args()


if __name__ == "__main__":
    main()
