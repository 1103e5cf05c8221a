"""Puts the diagnosis together: rules, scanner, files, and the targets that other areas know."""

import glob
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from runward.app import diagnose as app
from runward.config import rulesets
from runward.core import casebook, durations, errors, exits, failures, log_data, log_names, rules, signals
from runward.core import context as contexts
from runward.scan import reading

if TYPE_CHECKING:
    from runward.core import flight


class Sources(NamedTuple):
    """What a target offers: its logs, and what its backend knows."""

    logs: tuple[app.Log, ...]
    context: contexts.Context = contexts.Context()
    one_attempt: bool = False
    """Whether these are the logs of the wanted attempt alone."""
    search: app.Dumps | None = None
    """Where flight-recorder dumps of the attempt may lie; None: beside the logs."""
    box: Mapping[str, object] | None = None
    """What the machine was like at its end, where a record knows."""


_MAX_CONTEXT = 1 << 20
_SMALL = 128 << 10
"""A log below this is looked at line by line."""
_MUCH = 32 << 20
_WORKERS = 8
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


def engine(
    extra_rules: Sequence[str] = (), ruleset: rules.RuleSet | None = None, *, much: bool = False
) -> app.Engine:
    """Rules and scanner, ready to read logs. `much`: of so many megabytes that 0.1 s of preparation pays."""
    from runward import scan

    loaded = ruleset or rulesets.load(extra_rules)
    compiled = scan.compile(
        [rule.pattern for rule in loaded.rules],
        names=[rule.name for rule in loaded.rules],
        known=scan.Known(
            [rule.need for rule in loaded.rules],
            [rule.effort for rule in loaded.rules],
            () if much else loaded.keys,
        ),
        options=scan.Options(sparse=frozenset(i for i, rule in enumerate(loaded.rules) if rule.repeats)),
    )
    return app.Engine(loaded, lambda: scan.LineScanner(compiled))


class Question(NamedTuple):
    """What `runward diagnose` was asked."""

    targets: tuple[str, ...]
    context: contexts.Context = contexts.Context()
    kernel_logs: tuple[str, ...] = ()
    attempt: int | None = None
    since: float | None = None
    until: float | None = None
    """Seconds since the epoch: only lines between them count."""
    rules: tuple[str, ...] = ()
    explain: bool = False


class Answer(NamedTuple):
    """The diagnosis, what was weighed for it, and what reading the logs met."""

    diagnosis: failures.Diagnosis
    weighed: list[Mapping[str, object]]
    remarks: tuple[str, ...] = ()
    box: Mapping[str, object] | None = None
    """See `Sources.box`."""


def answer(question: Question) -> Answer:
    """The diagnosis of files, globs or one target. Raises UsageError, NotFound, Unreachable."""
    from runward.core import diagnosis

    opened: list[reading.LogFile] = []
    sources = resolve(question.targets, opened, question.attempt)
    attempt = None if sources.one_attempt else question.attempt
    ctx = merged(sources.context, question.context)
    kernel = [open_log(path, opened) for path in question.kernel_logs]
    window = app.Window(question.since, question.until)
    much = sum(file.size for file in opened) > _MUCH
    made = engine(question.rules, much=much)
    book = app.book_of(made, [*sources.logs, *kernel], ctx, window, _how(much=much))
    remarks = tuple(f"{file.path}: {note}" for file in opened for note in file.notes)
    remarks += tuple(f"rule refused: {problem}" for problem in made.ruleset.problems)
    search = sources.search or _beside([log.source.file for log in sources.logs], opened)
    found, ctx = app.concluded(book, ctx, search, attempt)
    found = _numbered(found, opened)
    weighed = diagnosis.weighed(book, ctx, attempt) if question.explain else []
    return Answer(found, weighed, remarks, sources.box)


def _how(*, much: bool) -> Callable[..., casebook.Casebook]:
    """With a process for each processor that we may use, where there is much to read."""
    cpus = min(len(os.sched_getaffinity(0)), _WORKERS) if much and hasattr(os, "sched_getaffinity") else 1
    if cpus < 2:
        return app.read
    from runward.app import apart

    return apart.reader(cpus)


def _beside(paths: Sequence[str | None], opened: Sequence[reading.LogFile]) -> app.Dumps:
    def search(named: Sequence[str]) -> "flight.FlightSummary | None":
        from runward.wiring import flights

        ends = [file.changed_at for file in opened]
        window = (min(ends) - flights.NEAR_S, max(ends)) if ends else (-math.inf, math.inf)
        return flights.Search([path for path in paths if path], *window)(named)

    return search


def _numbered(found: failures.Diagnosis, opened: Sequence[reading.LogFile]) -> failures.Diagnosis:
    """Evidence with its line numbers: counted afterwards, and only in the files that are cited."""
    lists = (found.evidence, found.counter_evidence, found.echoes)
    lines: dict[tuple[str, int], int] = {}
    for path in {file.path for file in opened}:
        offsets = [e.offset for items in lists for e in items if e.file == path and e.offset is not None]
        if offsets:
            lines |= {(path, at): line for at, line in reading.line_numbers(path, offsets).items()}
    counted = [
        tuple(
            replace(e, line=lines.get((e.file or "", -1 if e.offset is None else e.offset), e.line))
            for e in items
        )
        for items in lists
    ]
    return replace(found, evidence=counted[0], counter_evidence=counted[1], echoes=counted[2])


def resolve(targets: Sequence[str], opened: list[reading.LogFile], attempt: int | None = None) -> Sources:
    """The logs of files and globs (added to `opened`), or what the scheme of a single target offers."""
    if len(targets) == 1 and not os.path.exists(targets[0]):
        scheme, _, rest = targets[0].partition(":")
        if rest and scheme in _RESOLVERS:
            return _delegate(scheme, rest)
        if not rest and not _looks_like_a_path(targets[0]) and _known("run"):
            from runward.wiring import runs

            return runs.diagnosable(targets[0], attempt)
    paths = [path for target in targets for path in _paths(target.removeprefix("file:"))]
    wanted = log_names.of_attempt(paths, attempt)
    one = len(wanted) < len(paths)
    ranks = log_names.ranks_of(wanted)
    logs = tuple(open_log(path, opened, rank) for path, rank in zip(wanted, ranks, strict=True))
    return Sources(logs, one_attempt=one)


def _looks_like_a_path(target: str) -> bool:
    named = target.endswith((".log", ".out", ".err", ".txt", ".gz", ".zst", ".xz", ".json", ".jsonl"))
    return named or "/" in target or glob.has_magic(target)


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
        paths = sorted(path for path in found if log_names.is_log(path))
    else:
        paths = [target] if os.path.exists(target) else sorted(glob.glob(target, recursive=True))
    if not paths:
        raise errors.NotFound(
            errors.Problem(
                "no such file, run or target", target, next_step="Name a log file, or see runward ps."
            )
        )
    return paths[:4096]


def open_log(path: str, opened: list[reading.LogFile], rank: int | None = None) -> app.Log:
    """A log file of any kind, of that rank where it is one rank's."""
    file = reading.LogFile(path)
    opened.append(file)
    year = time.gmtime(file.changed_at).tm_year
    source = signals.Source(path, rank, None, year)
    return app.Log(source, file.chunks(), counted=False, lean=file.size >= _SMALL, notes=file.notes)


def text_log(source: signals.Source, data: bytes) -> app.Log:
    """The log that is there as a whole, however long it is."""
    return app.Log(source, reading.pieces(data), lean=len(data) >= _SMALL)


def merged(known: contexts.Context, said: contexts.Context) -> contexts.Context:
    """What the user says wins over what a backend knows."""
    changes = {
        name: getattr(said, name)
        for name in contexts.Context.__dataclass_fields__
        if getattr(said, name) not in (None, "", (), {})
    }
    return replace(known, **changes)


def case(loaded: app.Engine, raw: Mapping[str, object], folder: str) -> failures.Diagnosis:
    """The diagnosis of one labelled case: `context`, and `log`, `log_file` (relative to `folder`) or `logs` by name."""
    given = raw.get("context")
    ctx = contexts.from_json(given if isinstance(given, Mapping) else {})
    name, many = raw.get("log_file"), raw.get("logs")
    if isinstance(many, Mapping):
        paths = log_names.of_attempt(map(str, many), None)
        ranks = log_names.ranks_of(paths)
        logs = [_given(path, many[path], rank) for path, rank in zip(paths, ranks, strict=True)]
    elif isinstance(name, str):
        logs = [open_log(os.path.join(folder, name), [])]
    else:
        logs = [_given("log", raw.get("log"), None)]
    return app.judge(loaded, logs, ctx)


def _given(path: str, text: object, rank: int | None) -> app.Log:
    """A log of a case that stands in the case itself."""
    data = str(text or "").encode("utf-8", "surrogatepass")
    return app.Log(signals.Source(path, rank, None, 2026), [log_data.Chunk(0, data)])


def said(*, exit_code: str | None, state: str | None, context_file: str | None) -> contexts.Context:
    """The context of the command line: options, and a JSON file. Raises UsageError, NotFound."""
    raw: dict[str, object] = _json(context_file) if context_file else {}
    if exit_code is not None:
        if exits.parse(exit_code) is None:
            raise errors.UsageError(
                errors.Problem(f"{exit_code!r} is no exit code: write 1, -9, 137 or 0:15", "--exit-code")
            )
        raw["exit_code"] = exit_code
    if state is not None:
        raw["state"] = state
    return contexts.from_json(raw)


def _json(path: str) -> dict[str, object]:
    import json

    try:
        with open(path, encoding="utf-8") as file:
            raw = json.loads(file.read(_MAX_CONTEXT))
    except OSError as error:
        raise errors.NotFound(errors.Problem(f"cannot be read: {error.strerror}", path)) from None
    except (ValueError, RecursionError) as error:
        raise errors.UsageError(errors.Problem(f"no JSON object: {error}", path)) from None
    if not isinstance(raw, dict):
        raise errors.UsageError(errors.Problem("no JSON object", path))
    return raw


def instant(text: str | None, option: str) -> float | None:
    """Seconds since the epoch of an ISO instant (UTC without a zone) or `2h ago`. Raises UsageError."""
    from datetime import UTC, datetime

    if text is None:
        return None
    try:
        if text.endswith(" ago"):
            return time.time() - durations.parse_duration(text.removesuffix(" ago"))
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise errors.UsageError(
            errors.Problem(f"{text!r} is no time: write 2031-05-01T10:00:00 or '2h ago'", option)
        ) from None
