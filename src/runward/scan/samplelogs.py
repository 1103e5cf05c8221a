r"""Logs to measure a scanner with: healthy training, NCCL chatter, one hit in a hundred lines, and hostile text.

Made from a seed, of blocks that are repeated: the same size gives the same bytes on every machine.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

_BLOCK = 2 << 20
_HEX = "0123456789abcdef"

Line = Callable[[random.Random, int], str]


def iteration(chance: random.Random, step: int) -> str:
    """A line as Megatron-LM prints each step."""
    clock = f"{step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}"
    return (
        f" [2026-03-01 {clock}.{chance.randrange(10**6):06d}] iteration {step:8d}/  900000 | consumed samples: "
        f"{step * 512:12d} | elapsed time per iteration (ms): {600 + 9 * chance.random():.1f} | throughput per GPU "
        f"(TFLOP/s/GPU): {380 + 9 * chance.random():.1f} | learning rate: {1e-4 * chance.random():.6E} | global batch "
        f"size:   512 | lm loss: {2 + chance.random():.6E} | loss scale: 1.0 | grad norm: {chance.random():.3f} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def _filler(chance: random.Random, step: int) -> str:
    rank, small = chance.randrange(256), chance.random()
    lines = (
        f"[default{rank % 8}]:(min, max) time across ranks (ms): forward-backward: ({small:.2f}, {2 * small:.2f})",
        f"    params-all-gather ..............................: ({9 * small:.2f}, {20 * small:.2f})",
        f"[Rank {rank}] (after {step} iterations) memory (MB) | allocated: {6e4 * small:.1f} | reserved: 9e4",
        f"INFO:megatron.core.datasets.gpt_dataset:Load the document index from {_hexes(chance, 10)}-train.npy",
        f"2026-03-01 10:11:{step % 60:02d},{rank:03d} - data.loader - INFO - shard {rank * 7} queue depth {rank % 64}",
        f"wandb: uploading history steps {step}-{step + 9}, summary; updated {rank}s ago (0.00 of {9 * small:.2f} MB)",
        f"[default{rank % 8}]:/opt/venv/lib/torch/distributed/c10d_logger.py:{rank}: UserWarning: barrier() has no ids",
        f"DEBUG:training.pipeline: rank {rank} micro-batch {rank % 32} send_forward shape [4096, 1, {rank * 16}] done",
    )
    return lines[chance.randrange(len(lines))]


def _chatter(chance: random.Random, step: int) -> str:
    node, gpu = chance.randrange(512), chance.randrange(8)
    head = f"gpu{node:04d}:{8000 + node}:{9000 + node} [{gpu}] NCCL INFO "
    kind = chance.randrange(12)
    if kind < 8:
        operation = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast")[kind % 4]
        return (
            f"{head}{operation}: opCount {step:x} sendbuff 0x{_hexes(chance, 12)} recvbuff 0x{_hexes(chance, 12)} "
            f"acc (nil) count {node * 4096} datatype 9 op 0 root 0 comm 0x{_hexes(chance, 12)} [nranks=512] "
            f"stream 0x{_hexes(chance, 12)}"
        )
    if kind < 10:
        return f"{head}Channel {gpu:02d}/0 : {node}[{gpu}] -> {node ^ 1}[{gpu ^ 1}] via P2P/CUMEM/read"
    if kind == 10:
        trees = " ".join(
            f"[{channel}] {node ^ channel}/{node}/-1->{node}->{node ^ 7}" for channel in range(12)
        )
        return f"{head}Trees {trees}"
    return (
        f"{head}Connected all rings, use ring PXN 0 GDR 1; comm 0x{_hexes(chance, 12)} rank {node} nranks 512"
    )


def _hexes(chance: random.Random, length: int) -> str:
    return "".join(chance.choices(_HEX, k=length))


def healthy(chance: random.Random) -> Iterator[str]:
    """One iteration line among ten."""
    step = 0
    while True:
        step += 1
        yield iteration(chance, step)
        for _ in range(chance.randrange(7, 12)):
            yield _filler(chance, step)


def chatter(chance: random.Random) -> Iterator[str]:
    """NCCL_DEBUG=INFO, with an iteration line among two thousand."""
    step = 0
    while True:
        step += 1
        yield iteration(chance, step)
        for _ in range(2000):
            yield _chatter(chance, step)


def one_percent(chance: random.Random, examples: Sequence[str]) -> Iterator[str]:
    """Chatter and filler, and one line in a hundred that a pattern matches."""
    step = 0
    while True:
        step += 1
        for _ in range(99):
            yield (_chatter if chance.random() < 0.5 else _filler)(chance, step)
        yield chance.choice(examples)


def repeated(lines: Iterable[str], size: int) -> Iterator[bytes]:
    """`size` bytes at least: a block of whole lines, again and again."""
    block = bytearray()
    for line in lines:
        block += line.encode() + b"\n"
        if len(block) >= min(_BLOCK, size):
            break
    for _ in range(-(-size // len(block))):
        yield bytes(block)


PLANTED = (
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 11.50 GiB. GPU 1 has a total capacity of 79.10 GiB",
    b"\x1b[31mtorch.OutOfMemoryError\x1b[0m: CUDA \x1b[1mout of memory\x1b[0m. Tried to allocate \x1b[33m3 GiB\x1b[0m.",
    b"\xff\xfe\x80CUDA out of memory. Tried to allocate 44.50 GiB. GPU 4 \xc3\x28",
)


def hostile(chance: random.Random, size: int) -> Iterator[bytes]:
    r"""A line of \r bars, a line without separators, then colours, bad UTF-8, NULs and CRLF; faults in each."""
    bar = b"".join(b"\rshard 7: %3d%%|%s| %d/999" % (p % 100, b"#" * (p % 40), p) for p in range(1000))
    blank = bytes(chance.choices(b"0123456789abcdef ,.-", k=65536))
    for block in (bar, blank):
        times = max(2, size // 6 // len(block))
        yield block * (times // 2) + b"\r" * (block is bar) + PLANTED[0] + b"\r" * (block is bar)
        yield block * (times // 2) + b"\n"
    made = 0
    mixed = b"".join(_hostile_line(chance, number) for number in range(8000))
    while made < size * 2 // 3:
        made += len(mixed)
        yield mixed + b"\n".join(PLANTED) + b"\n"


def _hostile_line(chance: random.Random, number: int) -> bytes:
    kind = chance.randrange(10)
    if kind < 4:
        return b"\x1b[36m(Worker pid=%d)\x1b[0m \x1b[32mINFO\x1b[0m step %d \x1b[1mtps\x1b[0m %d\n" % (
            number * 7,
            number,
            number * 13,
        )
    text = _filler(chance, number).encode()
    if kind < 6:
        return text.replace(b"rank", b"r\xe9nk\xff") + b"\0\0\n"
    if kind == 6:
        return text + b"\r\n"
    if kind == 7:
        return b"".join(b"\r%3d%%|%s|" % (p, b"\xe2\x96\x88" * (p // 10)) for p in range(0, 101, 5)) + b"\n"
    if kind == 8:
        return chance.randbytes(200).replace(b"\n", b" ") + b"\n"
    return text + b"\n"
