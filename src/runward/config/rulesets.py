"""Rule files to rules: the shipped families, then the user's; compiled once, by content.

To compile hundreds of YAML rules takes longer than a diagnosis. The result for the shipped ones is made when the
package is built (`INDEX`), that for a user's is kept in the cache; both are lines of JSON: the hash of all contents
and a check sum, then the index, then a rule a line, which is read when a log meets it. One that is missing, damaged
or of other contents costs time and nothing else.
"""

import contextlib
import json
import os
import re
import sys
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple, overload

import runward
from runward.core import errors, rules, vocabulary

FORMAT = 8
"""Part of the key of what is compiled: raise it when the compiled form changes."""
INDEX = "compiled.jsonl"
"""Beside the shipped families: their compiled form."""
_MAX_FILE = 4 << 20
_KEPT = 8
"""Compiled sets of rules that are kept, of the files as they are and were."""


class Source(NamedTuple):
    """The content of one rule file."""

    name: str
    data: bytes
    user: bool = False


def folder() -> str:
    """Where the shipped families lie."""
    return os.path.join(os.path.dirname(runward.__file__), "rulesets")


def shipped() -> list[Source]:
    """The families that come with Runward, by name."""
    place = folder()
    names = sorted(name for name in os.listdir(place) if name.endswith(".yaml"))
    return [Source(name, _read(os.path.join(place, name))) for name in names]


def user_folder() -> str:
    """Where a user's rule files are looked for: `$RUNWARD_CONFIG_DIR/rules`, else the platform's place."""
    return os.path.join(os.environ.get("RUNWARD_CONFIG_DIR") or _place("config"), "rules")


def of_user() -> list[Source]:
    """The user's files; none when there is no such folder."""
    place = user_folder()
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith((".yaml", ".yml")))
    except OSError:
        return []
    return [Source(path, _read(path), user=True) for path in (os.path.join(place, name) for name in names)]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_FILE)
    except OSError as error:
        return f"unreadable: {error.strerror}".encode()


def load(extra: Sequence[str] = (), *, user: bool = True) -> rules.RuleSet:
    """Shipped rules, the user's, and the files `extra`. Refused rules are in `problems`, the rest work.

    Raises NotFound for one of `extra` that cannot be read.
    """
    ours, own = shipped(), _own(extra, user=user)
    key = _key(ours + own)
    path = os.path.join(cache_folder(), f"rules-{key}-{sys.version_info[0]}.{sys.version_info[1]}.jsonl")
    if own:
        return _cached(path, key) or _kept(path, _compiled(own, key, load(user=False)))
    built = os.path.join(folder(), INDEX)
    return _cached(built, key) or _cached(path, key) or _kept(path, _compiled(ours, key))


def compiled() -> rules.RuleSet:
    """The shipped rules from their files, whatever was kept of them."""
    ours = shipped()
    return _compiled(ours, _key(ours))


def full(extra: Sequence[str] = (), *, user: bool = True) -> rules.RuleSet:
    """As `load`, with the example lines of every rule: always from the files."""
    return parse(shipped() + _own(extra, user=user))


def _own(extra: Sequence[str], *, user: bool) -> list[Source]:
    return (of_user() if user else []) + [Source(path, _named(path), user=True) for path in extra]


def _named(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_FILE)
    except OSError as error:
        raise errors.NotFound(errors.Problem(f"cannot be read: {error.strerror}", path)) from None


def parse(sources: Iterable[Source], known: rules.RuleSet | None = None) -> rules.RuleSet:
    """Rules of `sources` behind `known`; a doubled name is refused. A fault in a shipped file is an InternalError."""
    good: dict[str, rules.Rule] = dict(known.by_name) if known else {}
    problems: list[errors.Problem] = list(known.problems) if known else []
    for source in sources:
        found, bad = rules.parse_family(_yaml(source), source.name)
        doubled = [r for r in found if r.name in good]
        bad += [errors.Problem("the name is taken already", f"{source.name}: rule {r.name}") for r in doubled]
        if bad and not source.user:
            raise errors.InternalError(*bad)
        good.update({r.name: r for r in found if r.name not in good})
        problems += bad
    return rules.RuleSet(tuple(good.values()), "", tuple(problems))


def _yaml(source: Source) -> object:
    import yaml  # noqa: PLC0415 -- 20 ms that a cached start does not pay

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(source.data, Loader=loader)  # noqa: S506 -- a safe loader, the C one where it exists
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        flat = re.sub(r"\s+", " ", str(error))
        return {
            "rules": [{"name": "(file)", "pattern": f"not valid YAML: {flat}"[:300], "role": "unreadable"}]
        }


def _key(sources: Iterable[Source]) -> str:
    by = f"runward rules {FORMAT} {runward.__version__}"
    first, second = zlib.crc32(by.encode()), 1
    for source in sources:
        named = f"\0{source.name}\0{len(source.data)}\0".encode()
        first = zlib.crc32(source.data, zlib.crc32(named, first))
        second = zlib.adler32(source.data, second)
    return f"{first:08x}{second:08x}"


def cache_folder() -> str:
    """Where compiled rules are kept: `$RUNWARD_CACHE_DIR/rules`, else the platform's place."""
    return os.path.join(os.environ.get("RUNWARD_CACHE_DIR") or _place("cache"), "rules")


def _place(kind: str) -> str:
    """The platform's folder for `config` or `cache`. On Linux without `platformdirs`, whose import takes 15 ms."""
    if os.uname().sysname == "Linux":
        named = os.environ.get(f"XDG_{kind.upper()}_HOME", "").strip()
        return os.path.join(named or os.path.expanduser(f"~/.{kind}"), "runward")
    import platformdirs  # noqa: PLC0415

    return str(getattr(platformdirs, f"user_{kind}_dir")("runward"))


class _Lines(Sequence[rules.Rule]):
    """Rules of the compiled form, each read when it is first asked for: a log meets few of them."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._read: dict[int, rules.Rule] = {}

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, place: int) -> rules.Rule: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[rules.Rule]: ...

    def __getitem__(self, place: int | slice) -> rules.Rule | Sequence[rules.Rule]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        found = self._read.get(place)
        if found is None:
            found = self._read[place] = rules.Rule.from_json(json.loads(self._lines[place]))
        return found


def _cached(path: str, key: str) -> rules.RuleSet | None:
    """What lies at `path`, where it was compiled from these contents and is whole."""
    try:
        with open(path, "rb") as file:
            sealed, _, body = file.read().partition(b"\n")
        if sealed != _seal(key, body):
            return None
        first, *lines = body.split(b"\n")
        head = json.loads(first)
    except (OSError, ValueError):
        return None
    problems = tuple(errors.Problem(what, where) for what, where in head["problems"])
    words = vocabulary.Vocabulary(*head["words"])
    index = rules.Index(head["names"], frozenset(head["repeating"]), words)
    return rules.RuleSet(_Lines(lines), key, problems, index)


def _seal(key: str, body: bytes) -> bytes:
    return f"{key} {zlib.crc32(body):08x}".encode()


def _compiled(sources: Iterable[Source], key: str, known: rules.RuleSet | None = None) -> rules.RuleSet:
    """The rules of `sources` behind `known`, without their examples, and the parts of all literals."""
    parsed = parse(sources, known)
    bare = tuple(rule._replace(match=(), no_match=()) for rule in parsed.rules)
    index = rules.Index.of(bare)
    words = vocabulary.with_parts(index.words, known.index.words.begins if known else ())
    return rules.RuleSet(bare, key, parsed.problems, index._replace(words=words))


def encoded(ruleset: rules.RuleSet) -> bytes:
    """The compiled form: of the shipped rules it is what belongs into `INDEX`.

    It says which literals a match must hold: true for every Python, whichever compiled it.
    """
    names, repeating, words = ruleset.index
    head = {
        "names": names,
        "repeating": sorted(repeating),
        "words": words,
        "problems": [[problem.what, problem.where] for problem in ruleset.problems],
    }
    lines = [head, *(rule.to_json() for rule in ruleset.rules)]
    body = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines).encode()
    return _seal(ruleset.fingerprint, body) + b"\n" + body


def _kept(path: str, ruleset: rules.RuleSet) -> rules.RuleSet:
    keep(path, encoded(ruleset))
    _tidy(os.path.dirname(path))
    return ruleset


def _tidy(folder: str) -> None:
    """Leave the newest few compiled sets; several processes may do so at once."""
    with contextlib.suppress(OSError):
        with os.scandir(folder) as entries:
            kept = sorted((e.stat().st_mtime, e.path) for e in entries if e.name.startswith("rules-"))
        for _, path in kept[:-_KEPT]:
            os.unlink(path)


def keep(path: str, data: bytes) -> None:
    """Put a file in place by rename; a cache that cannot be written is no error."""
    temporary = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        return
