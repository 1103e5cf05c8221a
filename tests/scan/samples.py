"""Patterns and lines that the scanner's tests share: every shape of literal, place and repetition that rules use."""

import random
import re

PATTERNS: dict[str, tuple[str, str]] = {
    # name: (pattern, a line that matches)
    "oom": (
        r"CUDA out of memory.*?Tried to allocate (?P<size>[\d.]+\s*[KMGT]iB)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 1",
    ),
    "iteration": (r"iteration\s+(?P<step>\d+)/\s*(?P<total>\d+) \|", " iteration   120/  500 | loss 2.1 |"),
    "exception": (r"^(?P<exc>[A-Za-z_.]+Error): (?P<msg>.*)", "ValueError: not enough values"),
    "user": (r"user (?P<who>\S+) logged in", "user Jürgen logged in"),
    "nan_iterations": (
        r"number of nan iterations:\s*(?P<n>[1-9]\d*)",
        "iteration 7/ 9 | number of nan iterations:   2 |",
    ),
    "thermal": (r"(?i)(?:hw|sw)? ?thermal slowdown", "GPU 3: SW Thermal Slowdown active"),
    "xid": (r"NVRM: Xid \(PCI:(?P<pci>[0-9a-f:.]+)\): (?P<xid>\d+)", "NVRM: Xid (PCI:0000:9b:00): 79, gone"),
    "killed": (r"(?:Killed|Terminated)$", "bash: line 1: 4411 Killed"),
    "usage": (r"(?P<prog>\S+\.py): error: (?P<msg>.*)", "train.py: error: unrecognized arguments"),
    "rank_first": (
        r"\[Rank (?P<rank>\d+)\] Watchdog caught (?P<what>collective operation timeout)",
        "[E ProcessGroupNCCL.cpp] [Rank 5] Watchdog caught collective operation timeout: SeqNum=4411",
    ),
    "scoped_case": (r"(?i:disk) quota exceeded", "OSError: Disk quota exceeded"),
    "not_after": (r"(?<!no )error found", "an error found here"),
    "loss": (
        r"(?i)\b(?P<what>loss|grad_norm)\s*[:=]\s*(?P<v>nan|-?inf)\b",
        "step 3 loss: nan grad_norm = inf",
    ),
    "umlaut": (r"größe (?P<n>\d+) falsch", "Größe: größe 12 falsch"),
    "any": (r"[ab]{2}cd(?:ef|gh)+", "xxabcdefgh"),
}
SOURCES = [pattern for pattern, _ in PATTERNS.values()]
NAMES = list(PATTERNS)
LINES = [line.encode() for _, line in PATTERNS.values()]


def brute(text: bytes) -> list[tuple[str, tuple[bytes | None, ...], int]]:
    """What every line's `finditer` of every pattern finds: the meaning that the scanner must keep."""
    found = []
    for name, (source, _) in PATTERNS.items():
        regex = re.compile(source.encode(), re.MULTILINE)
        start = 0
        for line in re.split(rb"[\r\n]", text):
            found += [(name, m.groups(), start + m.start()) for m in regex.finditer(line)]
            start += len(line) + 1
    return sorted(found, key=repr)


def noise(chance: random.Random) -> bytes:
    """A line made of examples, near misses, cut examples and junk."""
    parts = []
    for _ in range(chance.randrange(1, 8)):
        part = chance.choice(LINES)
        match chance.randrange(9):
            case 0:
                at = chance.randrange(len(part))
                part = part[:at] + bytes([chance.randrange(256)]) + part[at + 1 :]
            case 1:
                part = part[: chance.randrange(len(part))]
            case 2:
                part = part[chance.randrange(len(part)) :]
            case 3:
                part = part.swapcase()
            case 4:
                part = chance.randbytes(chance.randrange(120))
            case 5:
                part = bytes([chance.randrange(256)]) * chance.randrange(200)
            case _:
                pass
        parts += [part, chance.choice((b"", b" ", b"\x00", b"\n", chance.randbytes(chance.randrange(20))))]
    return b"".join(parts).replace(b"\x1b", b"")
