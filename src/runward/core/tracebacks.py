"""Python tracebacks of interleaved processes: which exception, raised where, by whom.

A literal hit opens a group; lines of the same speaker are taken until the first one that is not indented: the
exception. Bounded: 64 open groups, 200 lines each. Costs nothing while no group is open.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from runward.core import hosts, prefixes, regexes, signals, speakers, voices

START = "Traceback (most recent call"
MAX_OPEN, MAX_LINES, MAX_CODE = 64, 200, 64
_CODE_INDENT = 4
"""Blanks before the source text below a frame, counted from the opening line."""
_FRAME = r'File "(?P<path>[^"]{1,400})", line (?P<line>\d{1,7})(?:, in (?P<where>\S{1,100}))?'
_EXCEPTION = r"(?P<name>[A-Za-z_][\w.]{0,150})(?:: ?(?P<message>.*))?$"
_BAR = r"\d+%\||it/s|s/it|\d/\d+ \["
_OPENERS = (
    rf"{_BAR}|(?:Exception Group|Original|Remote|Error|Exception|error|exception|raised|failed)"
    r"[\w\s.:]{0,40}$"
)
"""What may stand before a traceback on its line without making it a quotation."""
CHECKPOINT_FILE = (
    r"(?<![A-Za-z])(?:ckpt|checkpoint|weights?|model|net|optimi[sz]er|optim|opt|ema|state|snapshot|step|iter|epoch|last|best|latest)"
    r"(?:[-_.=*{][\w.=*{}-]{0,80})?\.(?:h5|hdf5|npz|npy|msgpack|pkl|pickle|pth?|ckpt|keras|safetensors|bin|tar|joblib|ubj|pdparams)(?![\w.])"
)
"""The name of a file that holds a state of a training."""
_READING = (
    r"(?i)(?P<data>__getitem__|data_?sets?\b|data_?loader|_worker_loop|load_dataset|collate)"
    r"|(?P<checkpoint>(?:load|restore|resume|read)\w*(?:_|from_)(?:checkpoint|ckpt|state|states|weights|optimizer)"
    r"|\b(?:resum|restor)(?:e(?:_from\w*)?|ing)\b|checkpoint\w*\.load|(?:checkpoint|ckpt|resume)\w*\)|load_model\b"
    rf"|{CHECKPOINT_FILE})"
    r"|(?P<config>\b(?:load|read|parse|get)_\w{0,20}(?:config|cfg|yaml|hparams)\b(?!\s*[,)])"
    r"|\bfrom_(?:yaml|json|config)_file\b|config\w*\.py __init__"
    r"|\bopen\([^()]{0,60}(?:config|cfg)|(?:config|zero\d)\w*\.json\b)"
    r"|(?P<memory>\b(?:heap|shared_memory)\.py __init__|_share_f(?:d|ilename))|(?P<program>\b_execute_child\b)"
    r"|(?P<service>\b(?:vllm|sglang|reward|rollout|rm|judge|inference|generation)_?\w{0,20}(?:client|server|service|remote)\w{0,12}\.py"
    rf"|https?://(?:{hosts.OWN})[:/'\"\s])"
    r"|(?P<pinned>\bpin_memory(?:=True\b|\(\)|\.py)|\bcudaHost(?:Alloc|Register)\b)"
    r"|(?P<moved>\bos\.(?:link|symlink|rename|replace|remove|unlink)\b|\bshutil\.(?:move|rmtree)\b)"
)
"""Words of a frame that tell what it reads; the innermost frame that has any decides."""
_READING_WORDS = (
    *(
        "data",
        "getitem",
        "_worker_loop",
        "collate",
        "checkpoint",
        "ckpt",
        "state",
        "weight",
        "optimizer",
        "resum",
        "restor",
    ),
    *(
        "load_model",
        ".h5",
        ".hdf5",
        ".np",
        ".msgpack",
        ".pkl",
        ".pickle",
        ".pt",
        ".keras",
        ".safetensors",
        ".bin",
        ".tar",
    ),
    *(
        ".joblib",
        ".ubj",
        ".pdparams",
        "config",
        "cfg",
        "yaml",
        "hparams",
        "json",
        "heap.py",
        "shared_memory",
        "_share_f",
    ),
    *(
        "_execute_child",
        "client",
        "server",
        "service",
        "remote",
        "http",
        "pin_memory",
        "cudahost",
        "os.",
        "shutil.",
    ),
)
"""In lower case: each match of `_READING` holds one."""
_FORMATS = r"/(?:h5py|numpy|zarr|tables)/"
"""Libraries of formats that hold data and checkpoints alike, and have words of their own for it."""
_OWNER = r"last\)?[^()]{0,12}:? *\((?i:rank)[ =:]{1,2}(?P<rank>\d{1,6})\)"
"""Whose traceback it is, behind its opening words: of a rank that gathered those of the others."""
_NATIVE = r"\.(?:cpp|cc|cu|hpp|h):\d{1,6}\]"
"""The source of a record that no Python traceback belongs to."""
_FOREIGN = r"\d+%\||it/s\b|s/it\b"


_LEAD = r"\d|^\S+(?: \|)? *$"
_LONGEST_LEAD = 80
_NUMBERS = (
    r"(?i)(?<![a-z])rank\D{0,3}(\d{1,6})",
    r"(?<![A-Za-z\d.])\d{1,5}(?![A-Za-z\d.])",
    r"\d{1,5}",
)
_NO_SPEAKER = rf"(?i)\b(?:{speakers.NO_NODES}|attempt|retry|line|run)s?\b"


class Traceback(NamedTuple):
    """One finished traceback."""

    name: str
    """The exception's class as printed, e.g. `torch.OutOfMemoryError`."""
    message: str
    where: str
    """`file.py:88 in step` of the innermost frame of the user's code, else of the innermost frame."""
    rank: int | None = None
    node: str | None = None
    at: float | None = None
    file: str | None = None
    line: int | None = None
    """Line of the exception itself."""
    offset: int | None = None
    start: int | None = None
    """Offset of the line that opened it."""
    quoted: bool = False
    """Printed inside another message (a caught and logged exception, or a sample of text)."""
    ignored: bool = False
    """`Exception ignored in`: clean-up noise of the interpreter."""
    reading: str = ""
    """`checkpoint` or `data`: what its frames were reading, where they say so; `memory`: they made shared memory;
    `service`: they asked a server of the run's own; `pinned`: they took memory of the host that a GPU may read;
    `program`: they started one; `config`: they read the configuration; `moved`: they moved or removed a file."""
    text: str = ""
    named: bool = False
    """The traceback itself says whose it is, whoever prints it."""
    voice: voices.Voice = voices.NOBODY
    """The process that printed it, as its prefix names it."""
    bare: bool = False
    """Only its first line has a prefix: a logger put it before the whole record."""
    rules: tuple[str, ...] = ()
    """The rules that know its last line as a failure, also where of so many such lines this one is not kept."""
    code: tuple[int, ...] = ()
    """Offsets of the lines of source text below its frames: they tell what was written, not what happened."""
    outer: str = ""
    """The function of its first frame: of what nobody caught that is the module, or where a thread begins."""


@dataclass(slots=True, eq=False, repr=False)
class _Open:
    speaker: str
    indent: int
    start: int
    rank: int | None
    node: str | None
    at: float | None
    quoted: bool
    ignored: bool
    named: bool
    voice: voices.Voice
    lead: str = ""
    """What stands before the opening words and is no front that is known: of all its lines, if it is one."""
    fronted: bool = False
    """Whether frames came behind the same lead."""
    bare: bool = False
    """Whether frames came without the prefix of the first line."""
    frames: list[tuple[str, str, str]] = field(default_factory=list)
    outer: str = ""
    code: list[int] = field(default_factory=list)
    reading: str = ""
    lines: int = 0


class Grouper:
    """Collects the tracebacks of one source, line by line."""

    def __init__(self, source: signals.Source) -> None:
        self._source = source
        self._open: list[_Open] = []
        self._ignoring = False
        self._lead = prefixes.Prefix("")

    @property
    def busy(self) -> bool:
        """Whether a traceback is open: only then lines without a hit have to be shown."""
        return bool(self._open)

    def ignore_next(self) -> None:
        """The next traceback is clean-up noise (`Exception ignored in`)."""
        self._ignoring = True

    def introduce(self, line: str) -> None:
        """The line before a traceback: a record of an error that has it printed tells whose it is."""
        front = prefixes.on(prefixes.split(line, self._source.year), self._source.node)
        led = front.level in signals.ALARMS and not regexes.ready(_NATIVE).search(line)
        self._lead = front if led else prefixes.Prefix("")

    def speak(self, source: signals.Source) -> None:
        """What follows is said by another speaker of the same log."""
        self._source = source

    def feed(self, place: signals.Place) -> Traceback | None:
        """Show one line; returns the traceback that it finishes."""
        text = place.text
        at = text.find(START)
        if at >= 0:
            self._begin(text, at, place.offset or 0)
            return None
        if not self._open:
            return None
        front = prefixes.split(text, self._source.year)
        self._bare(front)
        for group in self._open:
            if group.speaker != front.speaker:
                continue
            if group.lead and front.body.startswith(group.lead):
                return self._take(group, _behind(front, group.lead), place)
            if not group.fronted:
                return self._take(group, front, place)
        return None

    def _bare(self, front: prefixes.Prefix) -> None:
        """A frame without a prefix goes on with the opening line above it that has one, where it can be no other's."""
        group = self._open[-1]
        if front.speaker or not group.speaker or group.lines:
            return
        if all(one.lines for one in self._open[:-1]) and regexes.ready(_FRAME).match(front.body):
            group.speaker, group.indent, group.bare = "", max(0, front.indent - 2), True

    def _begin(self, text: str, at: int, offset: int) -> None:
        front = prefixes.on(prefixes.split(text, self._source.year), self._source.node)
        lead = front.body[: max(0, front.body.find(START))]
        plain = not lead.strip(" |+-*") or bool(regexes.ready(_OPENERS).search(lead))
        said = regexes.ready(_OWNER).search(text, at)
        led = not front.speaker and not text[:at].strip() and self._lead.rank is not None
        rank = front.rank if front.rank is not None else self._lead.rank if led else self._source.rank
        rank = int(said["rank"]) if said else rank
        indent = front.indent if plain and not regexes.ready(_BAR).search(text[:at]) else 0
        group = _Open(
            front.speaker,
            indent,
            offset,
            rank,
            front.node,
            front.at,
            not plain or front.level in ("WARNING", "WARN", "INFO", "DEBUG"),
            self._ignoring,
            said is not None or led,
            self._lead.voice if led else signals.voice_of(front, self._source),
            lead if not plain and _may_front(lead, front) else "",
        )
        self._ignoring = False
        self._open.append(group)
        del self._open[:-MAX_OPEN]

    def _take(self, group: _Open, front: prefixes.Prefix, place: signals.Place) -> Traceback | None:
        group.lines += 1
        body = front.body.lstrip("| ") if front.body.startswith("|") else front.body
        frame = regexes.ready(_FRAME).search(body)
        if frame and (front.indent > group.indent or body.startswith("File ")):
            group.frames.append((frame["path"], frame["line"], frame["where"] or ""))
            group.outer = group.outer or frame["where"] or ""
            del group.frames[:-64]
            self._prove(group, place)
            if not regexes.ready(_FORMATS).search(frame["path"]):
                name = frame["path"].rpartition("/")[2]
                group.reading = _reading(f"{name} {frame['where']}") or group.reading
        elif body and front.indent <= group.indent and not regexes.ready(_FOREIGN).search(body):
            found = regexes.ready(_EXCEPTION).match(body)
            if found and (front.at is None or "." in found["name"] or found["name"][:1].isupper()):
                self._open.remove(group)
                return self._finish(group, found, place)
        elif body and group.frames:
            group.reading = _reading(body) or group.reading
            if front.indent >= group.indent + _CODE_INDENT and place.offset is not None:
                group.code.append(place.offset)
        if group.lines > MAX_LINES:
            self._open.remove(group)
        return None

    @staticmethod
    def _prove(group: _Open, place: signals.Place) -> None:
        """A frame behind the same lead: that is a front of an unknown kind, and its number tells who speaks."""
        if group.fronted or not group.lead or group.lead not in place.text:
            return
        group.fronted, group.quoted = True, False
        pods = speakers.pods(group.lead)
        if len(pods) == 1 and group.voice == voices.NOBODY and group.rank is None:
            group.node, group.voice = pods[0], voices.Voice(node=pods[0])
            return
        number = _number_of(group.lead)
        if group.rank is None and number is not None and number >= voices.MOST_PIDS:
            group.bare = group.voice == voices.NOBODY  # a process, which may tell its rank elsewhere
            group.voice = voices.Voice(f":{number}") if group.bare else group.voice
        elif group.rank is None and number is not None:
            group.rank, group.named = number, True

    def _finish(self, group: _Open, found: re.Match[str], place: signals.Place) -> Traceback:
        return Traceback(
            name=found["name"],
            message=(found["message"] or "")[:500],
            where=_innermost(group.frames),
            rank=group.rank,
            node=group.node,
            at=group.at,
            file=self._source.file,
            line=place.line,
            offset=place.offset,
            start=group.start,
            quoted=group.quoted,
            ignored=group.ignored,
            reading=group.reading or _unpickling(group.frames),
            text=place.text[: signals.TEXT_LIMIT],
            named=group.named,
            voice=group.voice,
            bare=group.bare,
            code=tuple(group.code[-MAX_CODE:]),
            outer=group.outer,
        )


def _may_front(lead: str, front: prefixes.Prefix) -> bool:
    """Whether words may be the front of all lines of a speaker: with a number, one word, or behind a known front."""
    return len(lead) <= _LONGEST_LEAD and (
        regexes.ready(_LEAD).search(lead) is not None or front.rank is not None
    )


def _behind(front: prefixes.Prefix, lead: str) -> prefixes.Prefix:
    """What stands behind a lead that is taken for a front."""
    rest = front.body[len(lead) :]
    body = rest.lstrip(" \t")
    return front._replace(body=body, indent=len(rest) - len(body))


def _number_of(lead: str) -> int | None:
    """The rank in such a lead: behind that word, else its only number that stands for itself, else its only one."""
    if regexes.ready(_NO_SPEAKER).search(lead):
        return None
    for pattern in _NUMBERS:
        found = {int(text) for text in regexes.ready(pattern).findall(lead)}
        if len(found) == 1:
            return found.pop()
    return None


def _reading(words: str) -> str:
    words = words[:400]
    found = regexes.find(_READING, words, words.lower(), *_READING_WORDS)
    return (found.lastgroup or "") if found else ""


_UNPICKLERS = ("torch/serialization.py", "torch/_weights_only_unpickler.py")


def _unpickling(frames: list[tuple[str, str, str]]) -> str:
    """`torch.load` where no frame says for what: nearly always a checkpoint."""
    inner = frames[-1][0] if frames else ""
    return "checkpoint" if inner.endswith(_UNPICKLERS) else ""


def _innermost(frames: list[tuple[str, str, str]]) -> str:
    own = [frame for frame in frames if not _library(frame[0])]
    if not (own or frames):
        return ""
    path, line, where = (own or frames)[-1]
    return f"{path}:{line}" + (f" in {where}" if where else "")


def _library(path: str) -> bool:
    return "site-packages" in path or "dist-packages" in path or "/lib/python" in path or path.startswith("<")
