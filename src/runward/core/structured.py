"""Log records that are written as data: one JSON object a line, or `key=value` pairs.

Gives the message and who speaks, so that the rules read such a record as they read a plain line. Bounded: it looks
at a line's first kilobytes, and only where a level stands in it.
"""

import re
from typing import NamedTuple

from runward.core import regexes

_LIMIT = 8000
_LEVEL = (
    r'"(?:level|levelname|severity|lvl|log_?level)": ?(?:\{[^{}]{0,80}"name": ?)?"(?P<level>[A-Za-z]{1,12})"'
)
_MESSAGE = (
    r'"(?:msg|message|event|error|err|text|exc_text|exc_info|exception)": ?"(?P<text>(?:[^"\\]|\\.){1,4000})'
)
_RANK = r'"(?:(?:global_|world_)?rank|process_index|process_id|worker_rank)": ?"?(?P<rank>\d{1,6})\b'
_LOCAL = r'"local_rank": ?"?(?P<local>\d{1,3})\b'
_NODE = r'"(?:node|host|hostname|node_name|pod|pod_name|task_name)": ?"(?P<node>[A-Za-z0-9][\w.-]{0,80})"'
_STAMP = r'"(?:ts|time|timestamp|asctime|@timestamp|datetime|date)": ?"(?P<at>[\dT:,.+Z -]{10,40})"'
_COLLECTORS = ('"kubernetes"', '"stream"', '"pod_name"', '"container_name"')
_LINE = r'"(?:log|message|msg)": ?"(?P<text>(?:[^"\\]|\\.){1,4000})'
_POD = r'"(?:pod_name|pod)": ?"(?P<pod>[a-z0-9][a-z0-9.-]{0,120})"'
_INDEX = r'"[\w./-]{0,60}(?:completion-index|replica-index|pod-index|worker-index)": ?"?(?P<index>\d{1,5})\b'
_PAIR = r'(?:[\w.@]{1,40}=(?:"(?:[^"\\]|\\.){0,400}"|[^\s"]{1,200}) +)'
_PAIRS = rf'(?P<front>{_PAIR}{{1,10}})(?:msg|message|event|error|err)=(?P<quote>"?)(?P<text>.*)'
_KEYS = (
    r"(?<![\w.])(?P<key>level|lvl|severity|(?:global_|world_|local_)?rank|node|host|hostname|pod|pod_name|ts|time)="
    r'"?(?P<value>[^\s"]{1,80})'
)
_ERROR_FILE = (
    r'\{"message": ?\{"message": ?"(?P<text>(?:[^"\\]|\\.){1,4000})'
    r'(?:", ?"extraInfo": ?\{.{0,8000}?"timestamp": ?"?(?P<at>\d{9,11})\b)?'
)
"""The file that torch's launcher has each rank write of its exception."""
_ESCAPES = {"n": " ", "t": " ", "r": " "}
_ESCAPED = r"\\(.)"
_PLACES = ("node", "host", "hostname", "pod", "pod_name")
_SMALL = r"\d{1,3}$"
_QUOTE = r'(?<!\\)"'


class Record(NamedTuple):
    """The fields of one record; empty where it does not say."""

    text: str
    level: str
    rank: int | None = None
    node: str | None = None
    stamp: str = ""
    local: int | None = None
    number: int | None = None
    """The index of its pod, which may be its rank."""
    wrapped: bool = False
    """Whether the text is a whole line that a collector of logs wrapped, with its own front."""


def read(line: str) -> Record | None:
    """The record that a line is, or None for any other line."""
    head = line[:_LIMIT]
    if head[:1] == "{":
        return _object(head)
    front = head[:400]
    return _pairs(head) if any(key in front for key in ("level=", "lvl=", "rank=")) else None


def _object(head: str) -> Record | None:
    written = regexes.ready(_ERROR_FILE).match(head)
    if written is not None:
        return Record(_unescaped(written["text"]).strip(), "ERROR", stamp=written["at"] or "")
    level, message = _found(head, _LEVEL, _MESSAGE)
    if level is None or message is None:
        return _wrapped(head)
    rank, node, stamp, local = _found(head, _RANK, _NODE, _STAMP, _LOCAL)
    return Record(
        _unescaped(message["text"]).strip(),
        level["level"].upper(),
        int(rank["rank"]) if rank else None,
        node["node"] if node else None,
        stamp["at"] if stamp else "",
        int(local["local"]) if local else None,
    )


def _wrapped(head: str) -> Record | None:
    """A line as a collector of logs keeps it: the text, its container's stream, the pod with its labels."""
    if not any(word in head for word in _COLLECTORS):
        return None
    line, rank, pod, stamp, index = _found(head, _LINE, _RANK, _POD, _STAMP, _INDEX)
    if line is None:
        return None
    return Record(
        _unescaped(line["text"]).rstrip(),
        "",
        int(rank["rank"]) if rank else None,
        pod["pod"] if pod else None,
        stamp["at"] if stamp else "",
        number=int(index["index"]) if index else None,
        wrapped=True,
    )


def _pairs(head: str) -> Record | None:
    found = regexes.ready(_PAIRS).match(head)
    if found is None:
        return None
    said = {pair["key"]: pair["value"] for pair in regexes.ready(_KEYS).finditer(found["front"])}
    text = found["text"]
    if found["quote"]:
        text = regexes.ready(_QUOTE).split(text, maxsplit=1)[0]
    rank = said.get("rank") or said.get("global_rank") or said.get("world_rank") or ""
    local = said.get("local_rank", "")
    return Record(
        _unescaped(text).strip(),
        (said.get("level") or said.get("lvl") or said.get("severity") or "").upper(),
        int(rank) if rank.isascii() and rank.isdigit() and len(rank) < 7 else None,
        next((said[key] for key in _PLACES if key in said), None),
        said.get("ts") or said.get("time") or "",
        int(local) if regexes.ready(_SMALL).match(local) else None,
    )


def _found(head: str, *patterns: str) -> list[re.Match[str] | None]:
    return [regexes.ready(pattern).search(head) for pattern in patterns]


def _unescaped(text: str) -> str:
    plain: str = regexes.ready(_ESCAPED).sub(lambda found: _ESCAPES.get(found[1], found[1]), text)
    return plain
