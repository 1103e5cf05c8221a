"""What stands at the front of a line for a machine: a launcher's number of it, its name in the log of one rank.

Such a front tells where a process is, and only together with other lines which one it is.
"""

import re

from runward.core import casebook, regexes, signals, voices

_NUMBERED = r"\s*(?P<label>\d{1,6}): "
_TOOL = r"\b(?:nvidia-smi|rocm-smi|dcgmi|amd-smi)\b"
_INDEX = r"(?<=\s)(?:-i|--id|-g|-d)[ =](?P<given>\d{1,2})\b|\b(?:GPU|gpu)[ :#\[]{1,2}(?P<named>\d{1,2})\b"
_SIZES = (2, 4, 8, 16)
"""GPUs of most nodes."""
_NCCL = rb"(?m)^(?:[^\n]{0,80}[>\]|:] ?)?(?P<node>[A-Za-z0-9][\w.-]{0,80}):\d{1,8}:\d{1,8} \[\d{1,3}\] "
_MOST = 2000


def of_node(signal: signals.Signal) -> bool:
    """Whether the number before what a tool shows of a GPU is that of a machine: the rank of no such GPU has it."""
    if "-smi" not in signal.text and "dcgmi" not in signal.text:
        return False
    front, tool = regexes.ready(_NUMBERED).match(signal.text), regexes.ready(_TOOL).search(signal.text)
    index = regexes.ready(_INDEX).search(signal.text, tool.end()) if tool else None
    if front is None or index is None:
        return False
    gpu, label = int(index["given"] or index["named"]), int(front["label"])
    return not any(label % size == gpu for size in _SIZES)


def others(node: str, book: casebook.Casebook) -> bool:
    """Whether NCCL speaks on a machine other than `node`, too: its numbers of devices begin anew on each."""
    own = voices.short(node)
    for edges in book.edges.values():
        text = edges.text
        if b"] NCCL " not in text and b"NCCL WARN" not in text:
            continue
        for _, found in zip(range(_MOST), regexes.ready(_NCCL).finditer(text), strict=False):
            if voices.short(found["node"].decode("utf-8", "replace")) != own:
                return True
    return False


_MACHINE = r"(?<![\w./-])[A-Za-z](?=[\w.]{0,40}[\d-])[\w.-]{1,60}\w(?![\w/-])"
_PLACED = rb"(?:(?:running |started )?(?:on )?(?:host(?:_?name)?|node|machine|server)|(?:running|started) on)[ :=]{1,3}"
"""Words before the name of the machine on which a log was written."""


def signing(about: str, text: str, book: casebook.Casebook) -> int | None:
    """The rank in whose log alone a machine signs: that which a line is about, else one that its text names."""
    named = [voices.short(about)] if about else regexes.ready(_MACHINE).findall(text)[:_NAMES]
    ranks = {rank for name in named for rank in _signed(voices.short(name), book)}
    return ranks.pop() if len(ranks) == 1 else None


_NAMES = 6


def _signed(name: str, book: casebook.Casebook) -> set[int | None]:
    """The ranks, None for those of whom it is not known, in whose logs lines begin with a name."""
    word = re.escape(name.encode()) + rb"(?:\.[\w.-]{1,80})?"
    front = rb"(?m)^(?:\[?" + word + rb"(?:\]|[:| ])|" + _PLACED + word + rb"[,;)\]]?\s*$)"
    logs = [(file, edges.text) for file, edges in book.edges.items()]
    signed = [file for file, text in logs if name.encode() in text and re.search(front, text)]
    return {book.rank_of_file(file) for file in signed}
