"""What the paths of logs tell: whose log each is, and which of torchrun's attempts it belongs to."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from runward.core import regexes

_SEP = r"[-_ .=]{0,2}"
_STREAM = r"(?:std(?:out|err)|output|error)(?:\.log|\.json)?"
"""A file of what one process of a launcher prints, in a folder with its number."""
_MARKED = (
    rf"(?i)(?:^|[^a-z])(?:global_?)?rank{_SEP}(?P<rank>\d{{1,6}})(?=\D|$)",
    (
        r"(?i)(?:^|[^a-z])(?:worker(?:log)?|proc(?:ess)?|task|trainer|gpu(?![-_ .]?(?:1[6-9]|[2-9]\d|\d{3}))|master"
        r"|stderr|stdout|[prw](?![-_ .]?\d{1,6}[a-z]))[-_ .]?"
        r"(?P<rank>\d{1,6})(?=\D|$)"
    ),
    (
        r"(?i)(?<!gpu)(?<!\bcn)(?<!\bgn)(?<!\bnid)(?<!\bdgx)(?<!\bhgx)(?<!\bsrv)(?<!\bslurm)(?<!\bjob)"
        r"[-_.](?P<rank>\d{1,5})\.(?:out|err|log|txt|stdout|stderr)(?:\.\d+)?$"
    ),
    r"(?i)_(?P<rank>\d{1,5})_log\.(?:out|err)$",
    r"(?i)(?:^|[-_.])(?:out|err|log|txt|output)\.(?P<rank>\d{1,5})$",
    r"#(?P<rank>\d{1,5})(?=$|[._-])",
)
_FOLDERS = (
    rf"(?i)(?:^|/)(?P<rank>\d{{1,5}})/{_STREAM}$",
    r"(?:^|/)(?P<rank>\d{1,5})\.(?:out|err|log|txt|stdout|stderr)$",
    r"(?i)(?:^|/)[\w-]*?(?:rank|worker|task|trainer|master)[-_.=]?(?P<rank>\d{1,5})/[^/]{1,80}$",
)
_OF_MACHINE = r"(?i)(?:^|[^a-z])(?:dmesg|kern(?:el)?|syslog|messages|journal(?:ctl)?|nvidia-smi)(?=$|[^a-z])"
"""The log of a machine: of all its processes, and of none."""
_OF_KERNEL = r"(?i)(?:^|[-_.])(?:dmesg|kern(?:el)?|syslog|messages|journal(?:ctl)?|nvidia-smi)(?:[-_.]|$)"
_OF_OTHERS = (
    r"(?i)(?:^|[^a-z])(?:runs?|exp(?:eriment)?|seed|fold|attempt|try|trial|restart|epoch|step|stage|phase|part|version|iter"
    r"|ckpt|checkpoint|sweep|config|cfg|split|chunk|shard|day|week|lr|bs|nodes?|hosts?|machine|compute|instance"
    r"|[abhv]\d00|gh200|mi\d{3}x?|l40s?)[-_.=]?\d{1,6}(?:\.[a-z]{2,6}){1,2}(?:\.\d+)?$"
    r"|^worker-[0-9a-f]{2,56}-[0-9a-f]{8}-\d+\."
)
"""A name that ends with the number of something else: of a run, a machine, a worker of Ray."""
_NUMBERS = r"(?<!\d)(?:\d{4}[-_.]\d\d[-_.]\d\d|\d{1,3}(?:-\d{1,3}){3}|\d{1,2}\.\d{1,3})(?=[-_.T]\D|[-_T]\d|$)"
"""A date, an address or a version within a name."""
_POD_FILE = r"(?:^|/)[\w-]{1,63}_(?P<pod>[\w.-]{1,80})_[0-9a-f]{8}[0-9a-f-]{20,30}/[\w.-]{1,63}/\d{1,4}\.log$"
"""How a node keeps the logs of its pods: the number of the file counts the restarts of a container."""
_ROTATED = r"(?P<base>.+)\.\d{1,5}$"
_LEADER = r"(?i)(?:^|[^a-z])master[-_]?0(?=\D|$)"
_WORKER = r"(?i)(?:^|[^a-z])worker[-_]?\d"
_ATTEMPT = r"(?P<base>^|.*/)attempt_(?P<attempt>\d{1,6})/"
_COUNTED = rf"(?P<place>.+?)/(?:attempt_\d{{1,6}}/)?(?:\d{{1,5}}/{_STREAM}|workerlog\.\d{{1,5}})$"
_NODE = (
    r"(?:^|[/_.])(?!(?:rank|worker|proc|process|task|trainer|gpu|step|attempt|job|slurm|run|exp|epoch|part|train|v|restart"
    r"|stdout|stderr|out|err|log|tmp|version|test|eval|seed|phase|stage|shard|workerlog)[-_]?\d)"
    r"(?![\w-]{0,60}(?:worker|master|trainer|launcher|server|replica|chief|ps)-\d)"
    r"(?P<node>[A-Za-z]{1,12}(?:-[A-Za-z0-9]{1,16}){0,4}(?<!\d)-?\d{1,5})(?=[._]|$)"
)
"""A part of a log's name that may be the name of a machine."""
_ADDRESS = r"(?:^|[_@-])(\d{1,3}(?:\.\d{1,3}){3})(?:$|[._-](?=[a-z]))"
"""An address as a part of a log's name."""
_LOG = r"(?:\.(?:log|out|err|txt)|(?:^|[./_-])(?:std)?(?:out|err|log)(?:\.\d{1,6})?|\w+log\.\d{1,6})$"


def is_log(path: str) -> bool:
    """Whether a file of a folder is taken for a log: by its name, numbered ones and torchrun's errors too.

    >>> [is_log(name) for name in ("a/3/stderr.log", "log/workerlog.3", "a/stdout", "a/3/error.json", "model.pt")]
    [True, True, True, True, False]
    """
    name = path.rpartition("/")[2]
    return name == "error.json" or regexes.ready(_LOG).search(name) is not None


def rank_of(path: str) -> int | None:
    """The rank whose log `path` is by its name.

    >>> [rank_of(name) for name in ("logs/rank3.log", "attempt_0/5/stderr.log", "logs/train.log", "slurm-711.out")]
    [3, 5, None, None]
    >>> [rank_of(name) for name in ("gpu7.log", "gpu7.dmesg", "gpu34.log", "dmesg-rank7.txt", "r7/kern.log")]
    [7, None, None, 7, None]
    """
    kept = regexes.ready(_POD_FILE).search(path)
    path = kept["pod"] if kept else path
    name = regexes.ready(_ADDRESS).sub("", path.rpartition("/")[2])
    machine = regexes.ready(_OF_MACHINE).search(name)
    other = machine or regexes.ready(_OF_OTHERS).search(name)
    name = regexes.ready(_NUMBERS).sub("", name)
    for patterns, text in (
        (_MARKED[: 1 if other else None], name),
        (_FOLDERS[: 0 if machine else None], path),
    ):
        for pattern in patterns:
            found = regexes.ready(pattern).search(text)
            if found:
                return int(found["rank"])
    return None


def only_counts(path: str) -> bool:
    """Whether the rank of a name is a number at its end without a word for what it counts.

    >>> [only_counts(name) for name in ("fit-3.log", "fit-rank3.log", "worker-3.log", "0/3.log", "3/stderr.log")]
    [True, False, False, False, False]
    """
    name = path.rpartition("/")[2]
    plain = any(regexes.ready(pattern).search(name) for pattern in _MARKED[2:5])
    return plain and not any(regexes.ready(pattern).search(name) for pattern in _MARKED[:2])


def node_of(path: str) -> str | None:
    """The machine whose log `path` is by its name.

    >>> node_of("logs/cn02.log"), node_of("slurm-81_node-4.out"), node_of("rank_3.log"), node_of("10.0.0.7.log")
    ('cn02', 'node-4', None, '10.0.0.7')
    >>> node_of("cn02-dmesg.log"), node_of("dmesg_cn02.txt"), node_of("dmesg.log")
    ('cn02', 'cn02', None)
    """
    name = regexes.ready(_OF_KERNEL).sub("_", path.rpartition("/")[2])
    found = regexes.ready(_NODE).findall(name) or regexes.ready(_ADDRESS).findall(name)
    return found[-1] if found else None


class Owner(NamedTuple):
    """Whose log a file is."""

    rank: int | None = None
    local: int | None = None
    """Only its number on its node, where files of several nodes are read together."""
    place: str = ""
    """The folder of its node's files."""
    node: str | None = None
    """Its machine, where the files of several are read together."""


def owners_of(paths: Sequence[str]) -> list[Owner]:
    """The owners of logs that are read together. Where a master is among them, workers are counted behind it.

    >>> [owner.rank for owner in owners_of(["x-master-0.log", "x-worker-1.log"])]
    [0, 2]
    >>> [owner.rank for owner in owners_of(["train.log", "train.log.1"])], owners_of(["r3.log"])[0].rank
    ([None, None], None)
    >>> owners_of(["n0/attempt_0/3/stderr.log", "n1/attempt_0/3/stderr.log"])[1]
    Owner(rank=None, local=3, place='n1', node=None)
    """
    if len(paths) < 2:
        return [Owner() for _ in paths]
    together = set(paths)
    led = any(regexes.ready(_LEADER).search(path) for path in paths)
    ranks = [_among(path, together, led=led) for path in paths]
    places = [_place(path) for path in paths]
    told = {(rank, place) for rank, place in zip(ranks, places, strict=True) if place}
    several = len({rank for rank, _ in told}) < len(told)
    nodes = [node_of(path) for path in paths]
    named = {node for node in nodes if node}  # one more may be the launcher's own
    nodes = nodes if nodes.count(None) <= 1 < len(named) else [None] * len(paths)
    return [
        Owner(None, rank, place) if several and place else Owner(rank, node=node)
        for rank, place, node in zip(ranks, places, nodes, strict=True)
    ]


def _place(path: str) -> str:
    """The folder in which a launcher numbers the logs of its own node's processes."""
    found = regexes.ready(_COUNTED).match(path)
    return found["place"] if found else ""


def _among(path: str, together: set[str], *, led: bool) -> int | None:
    rotated = regexes.ready(_ROTATED).match(path)
    if rotated and rotated["base"] in together:
        return None
    rank = rank_of(path)
    return rank + 1 if rank is not None and led and regexes.ready(_WORKER).search(path) else rank


def of_attempt(paths: Iterable[str], attempt: int | None) -> list[str]:
    """Of torchrun's folders `attempt_<n>` those of the last one, or of the one wanted (from 1).

    >>> of_attempt(["l/attempt_0/0/stderr.log", "l/attempt_1/0/stderr.log"], None)
    ['l/attempt_1/0/stderr.log']
    """
    found = [(path, regexes.ready(_ATTEMPT).match(path)) for path in paths]
    last: dict[str, int] = {}
    for _, match in found:
        if match:
            last[match["base"]] = max(last.get(match["base"], 0), int(match["attempt"]))
    return [
        path
        for path, match in found
        if match is None or int(match["attempt"]) == (last[match["base"]] if attempt is None else attempt - 1)
    ]
