"""What stands before the message of a log line: rank, node, time, level.

Every launcher and logger puts its own words in front. Taking them off tells who speaks and when, and lets a
rule say "the message begins with this". Bounded: at most eight prefixes of a line's first 300 characters.
"""

import re
from datetime import UTC, datetime
from typing import NamedTuple

from runward.core import regexes, speakers, structured, voices

_LIMIT = 300
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}


class Prefix(NamedTuple):
    """The parsed front of a line, and where its message begins."""

    body: str
    rank: int | None = None
    node: str | None = None
    at: float | None = None
    """Seconds since the epoch; below 1e8: seconds since boot, as the kernel's ring buffer prints them."""
    local_rank: int | None = None
    """The number that NCCL prints behind host and pids: a device of that host."""
    level: str = ""
    """`INFO`, `WARNING`, `ERROR` ... where a logger wrote it."""
    speaker: str = ""
    """The words that name the speaker, equal for lines of one process; groups interleaved tracebacks."""
    indent: int = 0
    """Blanks between the prefixes and the message."""
    voice: voices.Voice = voices.NOBODY
    """The process that speaks, by which a line without a rank goes with one that has it."""


_CLOCK = r"(?P<h>\d{1,2}):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_ISO = r"(?P<y>\d{4})[-/](?P<mo>\d\d)[-/](?P<d>\d\d)[T _-]" + _CLOCK + r"(?P<z>Z|[+-]\d\d:?\d\d)?"
_DAYS = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_SYSLOG_HOST = r"(?: (?P<node>[\w.-]+) (?=[\w.-]+(?:\[\d+\])?:))?"
_LEVELS = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|EXCEPTION)"
_SMALL_LEVELS = r"(?:debug|info|notice|warn|warning|error|critical|fatal|exception)"
_DIGIT, _WORD = "0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_TIMES = [
    ("[" + _DIGIT, rf"\[?{_ISO}\]?(?: UTC)?:?"),
    ("[", rf"\[(?P<mo>\d\d)/(?P<d>\d\d)/(?P<y>\d{{4}}) {_CLOCK}(?: [\w.]+)?(?: (?P<lvl>{_LEVELS}))?\]:?"),
    ("[", rf"\[(?P<mo>\d\d)/(?P<d>\d\d)(?:/(?P<y2>\d\d))? {_CLOCK}[^\]]{{0,60}}\]:?"),
    (
        "[MTWFS",
        rf"\[?{_DAYS}[a-z]* (?P<mon>[A-Z][a-z]{{2}}) +(?P<d>\d{{1,2}}) {_CLOCK} (?P<y>\d{{4}})\]?",
    ),
    (
        "[JFMASOND",
        rf"\[?(?P<mon>[A-Z][a-z]{{2}}) +(?P<d>\d{{1,2}}) (?:(?P<y>\d{{4}}) )?{_CLOCK}\]?{_SYSLOG_HOST}",
    ),
    (
        "[IWEFCD",
        rf"\[?(?P<lv>[IWEFCD])(?P<md>\d{{3,4}}) {_CLOCK} +(?:\d+ +)?[\w./<>+-]+:\d+\](?: \[[\w/]+\])?",
    ),
    (_DIGIT, rf"(?P<mo>\d\d)/(?P<d>\d\d)/(?P<y>\d{{4}}) {_CLOCK}"),
    (_DIGIT, rf"(?P<mo>\d\d)[-/](?P<d>\d\d) {_CLOCK}"),
    ("[" + _DIGIT, rf"\[?{_CLOCK}\]?(?= )"),
    ("[", r"\[ *(?:\+)?(?P<up>\d{1,10}\.\d{3,6})\]"),
    ("k", r"kern +:\w+ +: (?=\d{4})"),
]
_NOISE = [
    (
        "-|:[TDINWECF",
        rf"[-|:]? ?\[? *(?P<lvl>{_LEVELS})\]?(?: +\[[\w./<>-]+:\d+(?::\w+)?\]| *[:|-](?= )|:(?=\S)| +(?=\S))",
    ),
    ("[", rf"\[(?P<low>{_SMALL_LEVELS}) *\](?= )"),
    ("[", r"\[(?P<lv>[EWIF]) (?:\S+ )?[\w./]+:\d+\]"),
    ("[", rf"\[\w{{1,20}} (?P<lv>[EWIFCD]) {_ISO}(?: [^\]]{{1,60}})?\]"),
    ("[", r"\[(?:\w{0,20}Process|\w{0,20}Thread)(?:-\d+)?\]:?"),
    (_WORD, rf"[a-z_]\w{{0,40}} - (?=\[|[Rr]ank ?\d|{_LEVELS}\b)"),
    ("[", r"\[PG (?:ID )?[^\]]{0,80}? Rank (?P<rank>\d{1,6})\]"),
    ("[", r"\[[\w./-]+\.(?:py|cc|cpp|cu|h)(?::\d+(?::\w+)?| \(\d+\))\]"),
    (_WORD + "./", r"[\w./-]{1,80}\.(?:py|c|cc|cpp|cu|cuh|h|hpp|hip|go|rs):\d+:(?= )"),
    (_WORD + _DIGIT, r"(?:[\w.]+:\w*:\d+ ?[-|\]]|[\w./]{1,80}\.py:\d+ ?[-|])(?= )"),
    ("-|", r"[-|](?= ) ?"),
    (
        _WORD,
        (
            r"(?:root|(?!\w{1,80}\.(?:log|out|err|txt)[.\w]{0,6}:\d+ )[A-Za-z_][\w]*(?:\.\w+)+"
            r"|mm\w+|colossalai|\w+__main__\w*|__main__) ?(?:-(?= )|:(?=\S)(?!\d+: )|\|)"
        ),
    ),
    ("k", r"kernel: ?"),
    ("M", r"MPI startup\(\): "),
    ("[", r"\[(?:[0-9a-f]{7,12}|launcher|main)\](?= )"),
    ("[", r"\[[A-Za-z][\w.-]{1,24}\](?= ?[\[(](?:MPI |global )?(?:[Rr]ank|RANK|[Pp]rocess)[ =:_]?\d)"),
    ("|", r"\|\|(?= )"),
    ("<", rf"<{_SMALL_LEVELS}>(?= )"),
    ("s", r"slurmstepd: error: (?=\S*Error)"),
    ("s", r"std(?:err|out) [FP] "),
    (
        "EFfsr",
        r"(?:ErrorMessage:? \"|[Ff]ailure ?[Rr]eason: |statusReason: |reason: )(?=[\w.]*(?:Error|Exception))",
    ),
]
_SHORT = 24
"""A tag up to this long holds no stamp."""
_BEHIND = (
    r"(?:^|[ |{(])['\"]?(?:global_)?rank['\"]?[=:] ?(?P<rank>\d{1,6})"
    r"(?:[,}) ]{1,3}['\"]?[\w.]{1,40}['\"]?[=:] ?(?:'[^'\n]{0,80}'|\"[^\"\n]{0,80}\"|[^\s=,:'\"]{1,80}))*[})]?\s*$"
)
"""Fields at the end of a record: `... rank=3 step=12`, `| {'rank': 3}`."""
_SKIP = re.compile(r"[ \t]*")
_BY_CHAR = regexes.by_first([*_TIMES, *_NOISE])
_GLOG_LEVEL = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL", "C": "CRITICAL", "D": "DEBUG"}


def split(line: str, year: int | None = None) -> Prefix:
    """The front of `line`. `year` completes stamps that have none; without it they give no instant."""
    found = _Found(year)
    body, indent = found.front(line)
    record = structured.read(body)
    if record is not None and record.wrapped:
        body, indent = found.front(found.record(record))
    elif record is not None:
        body = found.record(record)
    elif found.level and found.rank is None and found.number is None:
        found.behind(line[-_LIMIT:])
    voice = found.voice()
    rank = voice.number if voice.assumed else found.rank
    speaker = "".join(found.speaker)
    return Prefix(body, rank, found.node, found.at, found.local, found.level, speaker, indent, voice)


def on(front: Prefix, node: str | None) -> Prefix:
    """The front of a line that stands in the log of `node`, as if the line itself named it where it names none."""
    if not node or front.node:
        return front
    voice = front.voice
    name = f"{node}{voice.name}" if voice.name.startswith(":") else voice.name
    return front._replace(node=node, voice=voice._replace(node=node, name=name))


class _Found:
    """What the prefixes of one line have said so far."""

    def __init__(self, year: int | None) -> None:
        self.year = year
        self.rank: int | None = None
        self.node: str | None = None
        self.local: int | None = None
        self.number: int | None = None
        self.process = ""
        self.tag = ""
        self.labelled = False
        """Whether the rank is only a launcher's label: the number of a task, which may hold several ranks."""
        self.through = False
        """Whether the number counts over all nodes."""
        self.at: float | None = None
        self.level = ""
        self.speaker: list[str] = []

    def front(self, line: str) -> tuple[str, int]:
        """Take all prefixes of `line`; gives its message and the blanks before it."""
        place = 0
        head = line[:_LIMIT]
        for _ in range(8):
            start = _SKIP.match(head, place)
            at = start.end() if start else place
            step = self.take(head, at)
            if step is None or step <= at:
                break
            place = step
        rest = line[place:].lstrip(":") if place else line
        body = rest.lstrip(" \t")
        return body, len(rest) - len(body)

    def take(self, head: str, at: int) -> int | None:
        """Where the prefix that begins at `at` ends, or None when there is none."""
        tag = speakers.read(head, at)
        if tag is not None:
            self._keep(tag.groups, head[at : tag.end])
            return tag.end
        for pattern in _BY_CHAR.get(head[at : at + 1], ()):
            match = regexes.ready(pattern).match(head, at)
            if match is None or match.end() == at:
                continue
            self._keep(match.groupdict(), "")
            return match.end()
        return None

    def record(self, record: structured.Record) -> str:
        """Take what a record of data says; gives its message."""
        self.rank = record.rank if self.rank is None else self.rank
        self.node = self.node or record.node
        self.local = record.local if self.local is None else self.local
        if record.number is not None and self.number is None:
            self.number, self.through = record.number, True
        self.level = record.level or self.level
        if record.wrapped:
            self.speaker.append(record.node or "")
        stamp = regexes.ready(_ISO).match(record.stamp) if self.at is None else None
        if stamp is not None:
            self.at = instant(stamp.groupdict(), self.year)
        return record.text

    def behind(self, end: str) -> None:
        """Take the rank that a logger prints behind its message."""
        said = regexes.ready(_BEHIND).search(end)
        self.rank = int(said["rank"]) if said else None

    def voice(self) -> voices.Voice:
        """How the line names its process."""
        number = self.local if self.number is None else self.number
        if number is None and self.rank is None and not self.process:
            return voices.Voice(node=self.node) if self.node else voices.NOBODY
        assumed = self.rank is None and self.number is not None
        node = "" if self.through else self.node or ""
        return voices.Voice(self.process, self.rank, number, node, assumed, self.tag if assumed else "")

    def _keep(self, groups: dict[str, str | None], speaker: str) -> None:
        if speaker:
            self._speaks(groups, speaker)
        self.node = self.node or groups.get("node")
        self._time(groups)
        level = groups.get("lvl") or _GLOG_LEVEL.get(groups.get("lv") or "", "") or groups.get("low") or ""
        self.level = level.upper() or self.level

    def _speaks(self, groups: dict[str, str | None], speaker: str) -> None:
        """Take what a tag says; what an earlier one said stays."""
        self.speaker.append(speaker)
        if self.rank is None or (self.labelled and groups.get("rank") and speaker.startswith("[")):
            self.rank, self.labelled = _number(groups, "rank"), bool(groups.get("label"))
        self.local = self.local if self.local is not None else _number(groups, "local")
        if self.number is None and groups.get("number"):
            self.number = _number(groups, "number")
            self.tag = speaker.strip() if groups.get("bare") else ""
        process = groups.get("pid") or groups.get("number")
        if process and not self.process:
            self.process = f"{groups.get('node') or ''}:{process.lstrip('0') or '0'}"
        stamp = regexes.ready(_ISO).search(speaker) if self.at is None and len(speaker) > _SHORT else None
        self.at = instant(stamp.groupdict(), self.year) if stamp else self.at

    def _time(self, groups: dict[str, str | None]) -> None:
        if self.at is not None:
            return
        if groups.get("h"):
            self.at = instant(groups, self.year)
        elif groups.get("up"):
            self.at = float(groups["up"] or 0)


def _number(groups: dict[str, str | None], name: str) -> int | None:
    text = groups.get(name)
    return int(text) if text else None


def instant(groups: dict[str, str | None], year: int | None) -> float | None:
    """Seconds since the epoch of the parts of a stamp (naive stamps are taken as UTC), or None."""
    month, day = groups.get("mo"), groups.get("d")
    if groups.get("mon"):
        month = str(_MONTHS.get(groups["mon"] or "", 0))
    if groups.get("md"):
        digits = groups["md"] or ""
        month, day = digits[:-2], digits[-2:]
    short = groups.get("y2")
    full = groups.get("y") or (f"20{short}" if short else str(year) if year else None)
    if not (full and month and day):
        return None
    fraction = float("0." + (groups.get("f") or "0"))
    try:
        moment = datetime(
            int(full),
            int(month),
            int(day),
            int(groups["h"] or 0),
            int(groups["mi"] or 0),
            int(groups["s"] or 0),
            tzinfo=UTC,
        )
    except ValueError:
        return None
    return moment.timestamp() + fraction - _zone(groups.get("z"))


def _zone(text: str | None) -> float:
    if not text or text == "Z":
        return 0.0
    digits = text[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60
    return float(seconds if text[0] == "+" else -seconds)
