"""Who speaks, by the tag that a launcher or logger puts before a line: `[rank3]:`, `3: `, `(Actor pid=7, ip=…)`.

One grammar for all of them: a tag is a bracket or a word with a mark behind it; what it holds are parts, each a rank, a
local rank, a number that may be either, a node or a process id. Whatever fits no part is no speaker.
"""

import re
from typing import NamedTuple

from runward.core import log_names, regexes

_NUMBER = r"\d{1,6}"
_BETWEEN = r"[ :=_#-]{0,2}"
_RANK = (
    r"(?:(?:[Gg]lobal|GLOBAL|world)[ _-]?(?:rank|RANK)|mpi_?rank|rank(?:[ _]?[iI][dD])?|Rank(?:ID|Id)?|RANK|rk|gr|GR"
    r"|process[ _](?:id|index|rank))"
)
_LOCAL = r"(?i:local[ _-]?rank|lrank|cuda|device)"
_PROCESS = (
    r"(?:[Pp]roc(?:ess)?|PROC(?:ESS)?|[Tt]ask|TASK|[Ww]orker|WORKER|[Tt]rainer|TRAINER|gpu|GPU|[Hh]ost"
    r"|[rpwRPW]|default)"
)
"""Words before a number of a process: a rank where one node is there, else the log must prove it."""
_ROLES = (
    r"(?:default|trainer|worker|train|main|actor|learner|rollout|critic|policy|agent|server|generator|role)"
)
"""Roles behind which torchrun prints a number."""
NO_NODES = (
    r"step|epoch|iter|layer|loss|top|trial|block|stage|gpu(?![-_]?\d\d)|cuda|level|try|acc|eval|test|batch|phase"
    "|fold|group|shard|expert|bucket|chunk|mesh|[dtpce]p"
)
_AFTER_NODE = (
    r"\[?(?:rank|Rank|default)[ :=]?\d|kernel:|\[?\d{4}-\d\d-\d\d|[IWEF]\d{4} \d\d:|={20}|-{20}|Failures:$|Root Cause"
    r"|Traceback | {1,8}(?:File |\w{4,10} *: )|[\w.]{1,80}(?:Error|Exception)\b"
)
"""What follows a node in brackets: so that a bracketed word of a message is none."""
_SETS = r"(?:workers|nodes?|slice|job|train|leader)"
"""Groups of pods that count them anew each, with a name of five letters behind."""
_POD = (
    r"(?:[a-z][a-z0-9.]{0,30}(?:-[a-z0-9.]{1,30}){0,6}-)?"
    r"(?:(?:worker(?:pool\d{1,2})?|master|trainer|launcher|chief|replica|server|ps|w)"
    r"-\d{1,5}(?:-\d{1,5})?(?:-[a-z0-9]{5}(?![a-z0-9]))?"
    rf"|{_SETS}-\d{{1,5}}-\d{{1,5}}-[a-z0-9]{{5}}(?![a-z0-9])"
    r"|(?<=-)rank-\d{1,5}(?!-?[a-z0-9]))"
)
"""A pod or service of which there are several: its number may be a rank."""
_OF_STEPS = "step|epoch|iter(?:ation)?|loss|rank|batch"
"""Words with which the message begins behind a pod's name, which are no container's."""
_NO_SOURCE = r"(?![\w./-]+\.(?:py|cc|cpp|cu|h|go|rs):)"
_CONTAINER = r"(?=[0-9a-f]{12}:)\d"
"""How the name of a machine begins that is a container's id."""
_OF = r"(?:(?:/| of )\d{1,6})?"
_STREAM = r"(?:<std(?:err|out)>)?"


class Tag(NamedTuple):
    """A tag that names a speaker: what it says by group, and where it ends."""

    groups: dict[str, str | None]
    """`rank`; `number`: a rank or a local one; `local`, `node`, `pid`."""
    end: int


_TAGS = {
    "[": rf"\[(?P<tag>[^\[\]\n]{{1,100}})\](?P<stream>{_STREAM})(?P<mark>:?)",
    "(": r"\((?P<tag>(?:[^()\n]|\([^()\n]{0,40}\)){1,120})\)(?P<stream>)(?P<mark>:| \||)",
    "<": r"<(?P<tag>[^<>\n]{1,40})>(?P<stream>)(?P<mark>:?)(?= )",
}
_NO_HOST = r"(?!(?:gpu|[Hh]ost)[-_]?0\d)"
"""Names of machines are counted with leading zeros, devices never."""
_PROCESS_NUMBER = rf"{_NO_HOST}{_PROCESS}{_BETWEEN}(?P<number>\d{{1,5}}){_OF}(?:-[a-z]{{1,12}})?"
_ALONE = (
    rf"{_RANK}{_BETWEEN}(?P<rank>{_NUMBER}){_OF}(?:[ ,|].{{0,60}})?",
    rf"{_LOCAL}{_BETWEEN}(?P<local>\d{{1,3}})",
    rf"[a-z]\w{{1,40}}-\d{{1,5}} (?P<rank>{_NUMBER}) / \d{{1,6}}",
    r"(?P<rank>\d{1,6})@(?P<node>[A-Za-z][\w.-]{0,60})",
    (
        r"(?:[\w:. -]{0,40} )?"
        r"(?P<pid>(?=.{0,40}\b[DP]P[1-9])(?:[A-Z_]{2,7}\d{1,4} ){1,5}[A-Z_]{2,7}\d{1,4})"
    ),
    r"(?:[\w:. -]{0,40} )?(?:[Tt][Pp]|[Dd][Pp])(?P<number>\d{1,4})(?: PP0)?(?: EP\d{1,4})?",
    r"\d+,mpirank:(?P<rank>\d{1,6}),(?P<node>[\w.-]+)",
    rf"(?P<node>{_POD})(?:-[a-z]{{1,12}})?",
    _PROCESS_NUMBER,
    rf"{_NO_SOURCE}(?P<node>(?:[A-Za-z]|{_CONTAINER})[\w.-]*):(?:(?P<pid>0\d{{4,7}})|(?P<number>\d{{1,7}})|-)",
    (
        rf"{_NO_SOURCE}(?P<node>(?=[\w.-]{{0,60}}[A-Za-z])\w[\w.-]*):(?P<pid>\d{{2,8}}) ?:[0-9a-f]{{1,3}}"
        r"(?::\d{1,8})?"
    ),
    r"pod/(?P<node>[\w.-]+)(?:/[\w.-]+)?",
)
"""What may be all that a bracket holds."""
_BEHIND_MARK = (
    r"(?:[\w.-]{1,80}@)?\d+,(?P<rank>\d{1,6})",
    r"(?P<rank>\d{1,5})(?:/\d{1,5})?",
    rf"{_ROLES}(?P<number>\d{{1,4}})",
)
"""What is a speaker only where a colon follows the bracket."""
_BEFORE_BLANK = (
    r"(?P<node>[A-Za-z][\w.-]{0,60})/(?P<local>\d{1,3})",
    r"(?P<number>(?P<bare>\d{1,5}))(?:/\d{1,5})?",
)
_LETTERED = r"(?:node|host|server|machine)(?:[-_][a-z]|[-_]?[A-Z](?!\w))(?:\.[a-z][\w.-]{0,60})?"
_NODE = (
    rf"(?!(?:{NO_NODES})[-_]?\d)(?P<node>[A-Za-z][\w.-]{{0,60}}\d|(?:[\w.]{{1,30}}-)?{_LETTERED}"
    r"|\d{1,3}(?:\.\d{1,3}){3})"
)
_ACTOR = (
    (
        r"(?!.*\bip=.*\bpid=)(?:[A-Za-z_][^()]{0,80}?(?:\([^()]{0,40}\))?[^()]{0,20}? )?"
        r"pid=(?P<pid>\d+)(?:, ip=(?P<node>[\w.:-]+))?"
    ),
    r"(?:raylet|autoscaler.*|gcs_server)(?:.{0,60}ip=(?P<node>[\w.:-]+))?",
)
_WITHIN = rf"(?<![\w-])(?<!(?:dp|tp|pp|cp|ep) ){_RANK}{_BETWEEN}(?P<rank>{_NUMBER})(?![\w.])"
_SMALL = "abcdefghijklmnopqrstuvwxyz"
_WORDS = _SMALL + _SMALL.upper()
_DIGITS = "0123456789"
_VALUE = r"(?:\"[^\"\n]{0,80}\"|[^\s\"=]{1,80})"
_FIELDS = (
    r"(?:(?:(?i:(?:global_|world_)?rank)=['\"]?(?P<rank>\d{1,6})|(?i:local_?rank)=['\"]?(?P<local>\d{1,3})"
    r"|(?i:node|node_?name|host|host_?name|pod|pod_?name)=['\"]?(?P<node>[A-Za-z0-9][\w.-]{0,80})|pid=['\"]?(?P<pid>\d{1,8})"
    rf"|(?:job|job_?id|run|run_?id|ns|namespace|container|cluster|app|task|role|attempt|tid|world_size|node_rank)={_VALUE})"
    r"['\"]?(?:,? +|,|;))"
)
"""A field of a line that begins with fields; others than those of the process are its message."""
_BEGINS = (
    rf"(?=(?:[\w.]{{1,20}}={_VALUE},? +){{0,8}}(?i:(?:global_|world_|local_)?rank|pod|pod_?name)=)"
    rf"(?![^\n]{{0,240}}\b(?:msg|message|event|error|err)=){_FIELDS}{{1,10}}"
)
_NAMED = (
    rf"(?!(?i:{NO_NODES}|v|py(?:thon)?)[-_]?\d)(?P<node>(?=[A-Za-z.]{{0,60}}[\d-])[A-Za-z][\w.-]{{0,60}}\w"
    r"|\d{1,3}(?:\.\d{1,3}){3})"
)
"""The name or address of a machine: a word with a number or a hyphen in it."""
_DAEMONS = "kernel|systemd|slurm(?:step)?d|dockerd|containerd|kubelet|nvidia-[a-z]{2,20}"
"""What writes into the log of a machine."""
_TELLING = ("rank=", "RANK=", "pod=", "pod_name=", "podname=")
"""One of these is among such fields: asked first, as many lines hold fields of a training's own."""
_BARE = (
    (
        "gGmprRw",
        (
            rf"{_RANK}(?:{_BETWEEN}(?P<rank>{_NUMBER}){_OF}(?: *[:|>\]›](?!\d)| -(?= )|(?=,? (?:[Ss]tep|[Ii]ter)\b)"
            r"|(?= [A-Z]\w{0,80}(?:Error|Exception)\b))"
            rf"|=(?P<rank2>{_NUMBER})(?= ))"
        ),
    ),
    ("r", r"rank(?P<rank>\d{1,6})\[\d{1,9}\]\[\w{1,40}\]:"),
    ("rR", rf"[Rr]ank[ _-]?(?P<rank>\d{{1,6}})(?: ?@ ?| on ){_NAMED}: "),
    (
        _WORDS + _DIGITS,
        (
            rf"{_NAMED}(?: {{1,8}}|/)(?=\[?(?:[Rr]ank|RANK)[ :=_-]?\d{{1,6}}(?:\](?::| )|: )"
            rf"|(?:{_DAEMONS})(?:\[\d{{1,8}}\])?: )"
        ),
    ),
    (_DIGITS, rf"(?P<rank>(?P<label>{_NUMBER})): (?!\d)"),
    (_DIGITS, r"(?P<node>\d{1,3}(?:\.\d{1,3}){3}): "),
    ("t", r"task(?P<rank>\d{1,6}) (?:rank\d+ )?(?:(?P<node>[A-Za-z][\w.-]*-?\d+) )?"),
    (
        _SMALL,
        (
            rf"(?P<node>{_POD})(?:: | › [\w.-]+ \| ?| +\| | (?=(?:{_OF_STEPS})\b)"
            rf"| (?!(?:{_OF_STEPS})\b)[a-z][\w.-]{{0,40}}:? (?=\S))"
        ),
    ),
    ("wg", r"(?P<node>(?:w|gpu-?)\d{1,5}): (?=\[rank\d|kernel: )"),
    (_SMALL, r"(?P<node>(?=[a-z.-]{0,60}\d)[a-z][a-z0-9.-]{0,80}) › [\w.-]{1,60} (?=\S)"),
    ("dgGhHpPrRtTwW", rf"{_NO_HOST}{_PROCESS}[-_ #]?(?P<number>{_NUMBER}){_OF}(?:_\d)?(?:: | +\| | ?> )"),
    (
        _WORDS,
        r"(?!python)(?P<node>(?:node|host)(?=\[)|(?=[\w.-]{0,60}\d)[A-Za-z][\w.-]*)\[(?P<number>\d{1,7})\]:",
    ),
    (_WORDS + _DIGITS, r"(?P<node>[A-Za-z0-9][\w.-]*):(?P<pid>\d+):\d+ \[(?P<local>\d{1,3})\]"),
    ("hmns", rf"(?P<node>host\d{{1,5}}|node[-_]?\d{{1,5}}|{_LETTERED})(?:: | \| | (?=[Rr]ank ?\d))"),
    (
        _SMALL,
        (
            rf"(?!slurm(?:step)?d-|python\d|(?:{NO_NODES})[-_]?\d)"
            r"(?P<node>[a-z][a-z0-9]{0,12}(?:-[a-z0-9]{1,16}){0,4}(?<=\d))(?:: | +\| (?!\s*[\d.]+ *[|%]))"
        ),
    ),
    (
        _WORDS,
        (
            rf"(?:\w{{1,20}} ){{0,3}}(?:on|in|from|for|of) {_RANK}{_BETWEEN}(?P<rank>{_NUMBER})(?: \w{{1,20}}){{0,2}}: "
            r"(?=[\w.]{1,80}(?:Error|Exception)\b)"
        ),
    ),
    (
        "hn",
        (
            r"(?:node|host)[ =:](?P<node>[A-Za-z][\w.-]{0,60}\d),? "
            rf"(?:{_RANK}{_BETWEEN}(?P<rank>{_NUMBER})|{_PROCESS}[-_ #=]?(?P<number>{_NUMBER})): "
        ),
    ),
    ("E", r"Exception in device=\w{2,6}:(?P<number>\d{1,5}): "),
    (
        _WORDS + _DIGITS + "./",
        r"(?P<path>(?:[\w.=-]{0,80}/){0,12}[\w.-]{1,80}\.(?:log|out|err|txt)(?:\.\d{1,6})?)[:-](?!\d+ )(?:\d+[:-])?",
    ),
    ("/", r"/job:\w{1,20}(?:/replica:\d{1,4})?/task:(?P<number>\d{1,5})(?:/device:\w{1,12}:\d{1,3})?:? "),
    (">", rf"> (?={_RANK}{_BETWEEN}\d)"),
    (_SMALL, r"[a-z][\w.-]{0,60}/\d{1,4} (?=\[(?:rank|default|trainer)\d)"),
)
_BY_CHAR = regexes.by_first(_BARE)
_ORDINAL = (
    r"(?:^|-)(?:(?P<role>worker|master|trainer|chief|replica|server|w)-(?:replica-)?(?:(?P<job>\d{1,5})-)?(?P<number>\d{1,5})"
    rf"(?:-[a-z0-9]{{5}})?|(?<=-)rank-(?P<rank>\d{{1,5}})|workerpool(?P<pool>\d)-(?P<replica>\d{{1,5}})|(?P<of>{_SETS})-(?P<set>\d{{1,5}})-(?P<index>\d{{1,5}})-[a-z0-9]{{5}})$"
)
_POD_NAME = rf"(?:(?<=\bpod/)|(?<=\bpods/)|(?<![\w/.-])){_POD}(?![\w-])"
_REPLICA = r"\breplica (?P<role>[Mm]aster|[Cc]hief|[Ww]orker)[ -](?P<number>\d{1,5})\b"
"""What services for training call a pod in their messages."""
_PART_OF_NAME = (
    r"^(?!.{0,60}[DPE]P[1-9].{0,20}TP|.{0,60}TP\d{1,4}_(?:[DP]P|PCP)[1-9])"
    r"\w{1,40}[_ ]TP(?P<number>\d{1,4})(?:_\w{1,20})? "
)
_KEY = 20
"""Bytes in which the first name of a field ends."""
_MORE = r" *[,|;] *"


def read(head: str, at: int) -> Tag | None:
    """The speaker whose tag begins at `at`, or None where none does."""
    char = head[at : at + 1]
    shape = _TAGS.get(char)
    if shape is None:
        return _bare(head, at, char)
    found = regexes.ready(shape).match(head, at)
    if found is None:
        return None
    tag = found["tag"].strip()
    groups = _actor(tag) if char == "(" else _inside(tag, found, head)
    return Tag(groups, found.end()) if groups is not None else None


def pods(text: str) -> list[str]:
    """Names of pods that a line holds."""
    named = [found[0] for found in regexes.ready(_POD_NAME).finditer(text)]
    told = regexes.ready(_REPLICA).finditer(text) if "replica" in text else ()
    return named + [f"{found['role'].lower()}-replica-{found['number']}" for found in told]


class Ordinal(NamedTuple):
    """Role and number of a pod; the role with the number of its job, where each job counts its pods anew."""

    role: str
    number: int


_LEADER = Ordinal("master", 0)
BY_RANK = "rank"
"""The role of a pod whose number is that of its rank."""


def ordinal(node: str) -> Ordinal | None:
    """Role and number of a pod or service by its name: what may be its rank.

    >>> [tuple(ordinal(name) or ()) for name in ("pt-worker-2", "job-trainer-0-3-x7k2p", "gpu-07")]
    [('worker', 2), ('trainer-0', 3), ()]
    >>> [tuple(ordinal(name) or ()) for name in ("fit-rank-2", "rank-2", "worker-replica-3")]
    [('rank', 2), (), ('worker', 3)]
    """
    found = regexes.ready(_ORDINAL).search(node)
    if found is None:
        return None
    if found["pool"]:
        return (
            Ordinal("worker", int(found["replica"]))
            if found["pool"] == "1"
            else _LEADER
            if found["pool"] == "0"
            else None
        )
    if found["rank"]:
        return Ordinal(BY_RANK, int(found["rank"]))
    job = found["job"] or found["set"]
    role = (found["role"] or found["of"]) + (f"-{job}" if job else "")
    return Ordinal(role, int(found["number"] or found["index"]))


def _bare(head: str, at: int, char: str) -> Tag | None:
    if "=" in head[at : at + _KEY] and any(key in head for key in _TELLING):
        found = regexes.ready(_BEGINS).match(head, at)
        if found is not None:
            return Tag(found.groupdict(), found.end())
    for pattern in _BY_CHAR.get(char, ()):
        found = regexes.ready(pattern).match(head, at)
        if found is not None:
            groups = found.groupdict()
            groups["rank"] = groups.get("rank") or groups.get("rank2") or _of_path(groups.get("path"))
            if groups["rank"] is not None or not groups.get("path"):
                return Tag(groups, found.end())
    return None


def _of_path(path: str | None) -> str | None:
    """The rank of the log that `grep` prints before its lines."""
    rank = log_names.rank_of(path) if path else None
    return None if rank is None else str(rank)


def _actor(tag: str) -> dict[str, str | None] | None:
    """What stands in parentheses: an actor with its process, or a rank."""
    within = regexes.ready(_WITHIN).search(tag)
    found = _full(tag, _ACTOR)
    if found is None:
        listed = within and "," in tag
        return within.groupdict() if within and listed else _full(tag, (*_ALONE[:2], _PROCESS_NUMBER))
    part = regexes.ready(_PART_OF_NAME).search(tag)
    if within and found.get("node") and not found.get("pid"):
        return found
    return {**found, **within.groupdict()} if within else {**found, **part.groupdict()} if part else found


def _inside(tag: str, found: re.Match[str], head: str) -> dict[str, str | None] | None:
    marked = bool(found["mark"] or found["stream"])
    groups = _full(tag, _ALONE) or _full(tag, _BEHIND_MARK if marked else ())
    blank = head[found.end() : found.end() + 1] == " "
    if groups is None and blank and not found["stream"]:
        groups = _full(tag, _BEFORE_BLANK)
    if groups is None and blank and regexes.ready(_AFTER_NODE).match(head, found.end() + 1):
        groups = _full(tag, (_NODE,))
    return groups if groups is not None else _parts(tag)


def _parts(tag: str) -> dict[str, str | None] | None:
    """A bracket that holds several things: the rank among them, and the node."""
    within = regexes.ready(_WITHIN).search(tag)
    said = dict(within.groupdict()) if within else {}
    rest = tag[: within.start()] + "," + tag[within.end() :] if within else tag
    for part in regexes.ready(_MORE).split(rest)[:8]:
        groups = _full(part.strip(), (_ALONE[1], _PROCESS_NUMBER, _NODE))
        for name, text in (groups or {}).items():
            if not (name == "node" and not within and not said):
                said.setdefault(name, text)
    if within or (said.get("number") and "|" in tag):
        return said
    return None


def _full(tag: str, patterns: tuple[str, ...]) -> dict[str, str | None] | None:
    for pattern in patterns:
        found = regexes.ready(pattern).fullmatch(tag)
        if found is not None:
            return found.groupdict()
    return None
