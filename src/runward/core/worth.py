"""Which lines are worth a closer look for who is who: told by their words, once for each shape of a line."""

import enum

BUS_END = b":00.0"
"""How the bus of a GPU ends."""
_BESIDE = (
    b"pid",
    b"process ",
    b"local",
    b"node",
    b"machine",
    b"group",
    b"global",
    b"world",
    b"member",
    b"gpu",
    b"cuda",
    b"actor",
    b"worker",
    b"container",
    b"host",
    b"instance",
    b"server",
    b"addr",
    b" ip",
    b"_ip",
    b" (",
    b"ranks",
    b" on ",
    b"->",
    b" @ ",
    BUS_END,
)
_COUNTS = (
    b"nproc",
    b"num_local_procs",
    b"num_processes",
    b"num_machines",
    b"per_node",
    b"world_size",
    b"world size",
    b"world info dict",
    b"omp_num_threads",
)
_RANKS = (b"rank", b"procid", b"process index", b"process_index")
_COUNTED = (
    b"worker ",
    b"trainer ",
    b"task ",
    b"proc ",
    b"process ",
    b"[worker",
    b"[task",
    b"[proc",
    b"[trainer",
)
"""Fronts of processes that are counted."""
_OWN = (b"process_index", b"reported by process [")
_SIGNS = (b"rank", b"worker-", b"master-", b"replica-", b"trainer-", b"chief-")
_DEVICES = (BUS_END, b"uuid: gpu-")
_CHANNELS = (b"] -> ", b"trees [")
_NCCL = b"nccl info"
_TASKS = (b": task",)
_ALL = (*_RANKS, *_SIGNS, *_BESIDE, *_COUNTS, *_DEVICES, *_CHANNELS, *_TASKS)
LINE = 1000
"""Bytes of a line that are looked at."""
_FRONT = 80
"""Bytes of a line in which its speaker stands."""
_NUMBERED = 12
"""Bytes of a line in which the id of its process stands, with a bar behind."""
_MOST = 1 << 14
"""Shapes that are remembered."""


class Kind(enum.Enum):
    """What a line may tell."""

    NOTHING = enum.auto()
    RANK = enum.auto()
    """A rank with something beside it, or how many there are."""
    DEVICE = enum.auto()
    CHANNEL = enum.auto()
    """NCCL's channels and trees."""
    TASK = enum.auto()
    SIGNED = enum.auto()
    """No more than a rank or a pod at its front, and perhaps a machine."""


class Worth:
    """The kinds of the lines of one source."""

    def __init__(self, text: bytes, known: dict[bytes, Kind]) -> None:
        """`text` of the source in lower case; `known`: the kinds of shapes met so far, in all sources."""
        self._any = _has(_ALL, text)
        self._buses = BUS_END in text
        self._known = known

    def __bool__(self) -> bool:
        """Whether any line of it can be worth a look."""
        return self._any

    def kind(self, line: bytes, shape: bytes) -> Kind:
        """Of a line; `shape` is that of `repeats.shape`, in which no numbers are left."""
        key = shape + BUS_END if self._buses and BUS_END in line else shape
        found = self._known.get(key)
        if found is None:
            found = _kind(line[:LINE].lower())
            if len(self._known) < _MOST:
                self._known[key] = found
        return found


def _kind(low: bytes) -> Kind:
    numbered = low[:1].isdigit() and b" | " in low[:_NUMBERED]
    if (_has(_RANKS, low) and (numbered or _has(_BESIDE, low))) or _has(_COUNTS, low):
        return Kind.RANK
    if (b"pid" in low and low.startswith(_COUNTED)) or _has(_OWN, low):
        return Kind.RANK
    if _has(_DEVICES, low):
        return Kind.DEVICE
    if _has(_CHANNELS, low) and _NCCL in low:
        return Kind.CHANNEL
    if _has(_TASKS, low):
        return Kind.TASK
    return Kind.SIGNED if _has(_SIGNS, low[:_FRONT]) else Kind.NOTHING


def _has(words: tuple[bytes, ...], text: bytes) -> bool:
    return any(word in text for word in words)
