"""Puts the diagnosis together: rules, scanner, files, and the targets that other areas know."""

import glob
import gzip
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO

from runward import ports
from runward.app import diagnose as app
from runward.config import rulesets
from runward.core import context as contexts
from runward.core import errors, failures, rules, signals

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Sources:
    """What a target offers: its logs, and what its backend knows."""

    logs: tuple[app.Log, ...]
    context: contexts.Context = field(default_factory=contexts.Context)


Resolver = Callable[[str], Sources]
_RESOLVERS: dict[str, str] = {
    "docker": "runward.wiring.docker:diagnosable",
    "slurm": "runward.wiring.slurm:diagnosable",
    "local": "runward.wiring.local:diagnosable",
    "ray": "runward.wiring.ray:diagnosable",
    "k8s": "runward.wiring.k8s:diagnosable",
    "run": "runward.wiring.runs:diagnosable",
}
"""Scheme: `module:function`; the function takes the target without its scheme and returns `Sources`."""


def engine(extra_rules: Sequence[str] = (), ruleset: rules.RuleSet | None = None) -> app.Engine:
    """Rules and scanner, ready to read logs."""
    loaded = ruleset or rulesets.load(extra_rules)
    return app.Engine(loaded, _scanner(loaded))


def _scanner(ruleset: rules.RuleSet) -> app.MakeScanner:
    from runward import scan

    compiled = scan.compile(
        [rule.pattern for rule in ruleset.rules],
        names=[rule.name for rule in ruleset.rules],
        needs=[rule.need for rule in ruleset.rules],
    )
    return lambda: scan.LineScanner(compiled)


@dataclass(frozen=True, slots=True)
class Question:
    """What `runward diagnose` was asked."""

    targets: tuple[str, ...]
    context: contexts.Context = field(default_factory=contexts.Context)
    kernel_logs: tuple[str, ...] = ()
    attempt: int | None = None
    rules: tuple[str, ...] = ()


def answer(question: Question) -> failures.Diagnosis:
    """The diagnosis of files, globs or one target. Raises UsageError, NotFound, Unreachable."""
    sources = resolve(question.targets)
    ctx = merged(sources.context, question.context)
    kernel = [open_log(path, several=False) for path in question.kernel_logs]
    return app.judge(engine(question.rules), [*sources.logs, *kernel], ctx, question.attempt)


def resolve(targets: Sequence[str]) -> Sources:
    """The logs of files and globs, or what the scheme of a single target offers."""
    if len(targets) == 1 and not os.path.exists(targets[0]):
        scheme, _, rest = targets[0].partition(":")
        if rest and scheme in _RESOLVERS:
            return _delegate(scheme, rest)
        if not rest and not glob.has_magic(targets[0]) and _known("run"):
            return _delegate("run", targets[0])
    paths = [path for target in targets for path in _paths(target.removeprefix("file:"))]
    several = len(paths) > 1
    return Sources(tuple(open_log(path, several=several) for path in paths))


def _known(scheme: str) -> bool:
    from importlib.util import find_spec

    return find_spec(_RESOLVERS[scheme].partition(":")[0]) is not None


def _delegate(scheme: str, rest: str) -> Sources:
    from importlib import import_module

    if not _known(scheme):
        raise errors.UsageError(
            errors.Problem(f"{scheme}: targets cannot be diagnosed by this version", f"{scheme}:{rest}")
        )
    module, _, function = _RESOLVERS[scheme].partition(":")
    found: Sources = getattr(import_module(module), function)(rest)
    return found


def _paths(target: str) -> list[str]:
    if os.path.isdir(target):
        found = [os.path.join(top, name) for top, _, names in os.walk(target) for name in names]
        paths = sorted(path for path in found if path.endswith((".log", ".out", ".err", ".txt")))
    else:
        paths = [target] if os.path.exists(target) else sorted(glob.glob(target, recursive=True))
    if not paths:
        raise errors.NotFound(
            errors.Problem(
                "no such file, run or target", target, next_step="Name a log file, or see runward ps."
            )
        )
    return paths[:4096]


def open_log(path: str, *, several: bool) -> app.Log:
    """A log file, plain or gzip; rank by its name when several are read together."""
    if not os.access(path, os.R_OK):
        raise errors.UsageError(errors.Problem("no permission to read it", path))
    year = time.gmtime(os.stat(path).st_mtime).tm_year
    source = signals.Source(path, app.rank_of(path, several=several), None, year)
    return app.Log(source, _chunks(path))


def _chunks(path: str) -> Iterator[ports.Chunk]:
    offset = 0
    with _open(path) as file:
        while data := file.read(_CHUNK):
            yield ports.Chunk(offset, data)
            offset += len(data)


def _open(path: str) -> IO[bytes]:
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def merged(known: contexts.Context, said: contexts.Context) -> contexts.Context:
    """What the user says wins over what a backend knows."""
    changes = {
        name: getattr(said, name)
        for name in contexts.Context.__dataclass_fields__
        if getattr(said, name) not in (None, "", (), {})
    }
    return replace(known, **changes)


def case(loaded: app.Engine, raw: Mapping[str, object], folder: str) -> failures.Diagnosis:
    """The diagnosis of one labelled case: `context`, and `log` or `log_file` (relative to `folder`)."""
    given = raw.get("context")
    ctx = contexts.from_json(given if isinstance(given, Mapping) else {})
    name = raw.get("log_file")
    if isinstance(name, str):
        logs = [open_log(os.path.join(folder, name), several=False)]
    else:
        data = str(raw.get("log") or "").encode("utf-8", "surrogatepass")
        logs = [app.Log(signals.Source("log", None, None, 2026), [ports.Chunk(0, data)])]
    return app.judge(loaded, logs, ctx)
