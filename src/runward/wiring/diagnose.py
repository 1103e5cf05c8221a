"""Puts the diagnosis together: rules, scanner, files, and the targets that other areas know."""

import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from runward.app import diagnose as app
from runward.app import spans
from runward.config import rulesets
from runward.core import casebook, errors, exits, failures, log_data, log_names, rules, schedulers, signals
from runward.core import context as contexts
from runward.scan import reading
from runward.wiring import log_paths

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
    notes: Sequence[str] = ()
    """What could not be read."""
    files: Sequence[reading.LogFile] = ()
    """Of the logs those that are files: their lines are counted where they are cited."""


_MAX_CONTEXT = 1 << 20
_MUCH, _MANY = 32 << 20, 256
"""Bytes, and files, above which several processes read them."""
_WORKERS = 8
_SAMPLES, _SAMPLE = 16, 8 << 10
"""So many files at most are looked into before many of them are read, and bytes of each."""
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
    extra_rules: Sequence[str] = (), ruleset: rules.RuleSet | None = None, like: bytes = b""
) -> app.Engine:
    """Rules and scanner, ready to read logs. `like`: a sample of them, where they are long."""
    from runward import scan

    loaded = ruleset or rulesets.load(extra_rules)
    found, index = loaded.rules, loaded.index
    known = scan.Known(
        _Each(found, operator.attrgetter("need")),
        _Each(found, operator.attrgetter("effort")),
        index.words.beside(like) if like else index.words,
    )
    compiled = scan.compile(
        _Each(found, operator.attrgetter("pattern")),
        names=index.names,
        known=known,
        options=scan.Options(sparse=index.repeating),
    )
    return app.Engine(loaded, lambda: scan.LineScanner(compiled))


class _Each(Sequence[Any]):
    """One field of every rule, of which only those are read that a log meets."""

    def __init__(self, found: Sequence[rules.Rule], field: Callable[[rules.Rule], Any]) -> None:
        self._rules, self._field = found, field

    def __len__(self) -> int:
        return len(self._rules)

    def __getitem__(self, place: Any) -> Any:
        return self._field(self._rules[place])


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
    """The diagnosis, what was weighed for it, and the user's rules that were refused."""

    diagnosis: failures.Diagnosis
    weighed: list[Mapping[str, object]]
    remarks: tuple[str, ...] = ()
    box: Mapping[str, object] | None = None
    """See `Sources.box`."""


def answer(question: Question) -> Answer:
    """The diagnosis of files, globs or one target. Raises UsageError, NotFound, Unreachable."""
    from runward.core import diagnosis

    sources = resolve(question.targets, question.attempt)
    opened = list(sources.files)
    attempt = None if sources.one_attempt else question.attempt
    ctx = merged(sources.context, question.context)
    kernel = [log_paths.open_log(path, opened) for path in question.kernel_logs]
    window, notes = spans.Window(question.since, question.until), list(sources.notes)
    timed = log_paths.Timed((*sources.logs, *kernel), window)
    notes += timed.notes
    much = sum(file.size for file in opened) > _MUCH
    made = engine(question.rules, like=_sample(opened) if much else b"")
    book = app.book_of(made, timed.logs, ctx, window, _how(much=much or len(opened) > _MANY))
    timed.check()
    if attempt is not None:
        _there(book, attempt)
    notes += _unheard(ctx.state)
    notes += _met(opened)
    search = sources.search or _beside([log.source.file for log in sources.logs], opened)
    found, ctx = app.concluded(book, ctx, search, attempt)
    found = _numbered(found, opened)._replace(notes=(*found.notes, *notes))
    weighed = diagnosis.weighed(book, ctx, attempt) if question.explain else []
    refused = tuple(f"rule refused: {problem}" for problem in made.ruleset.problems)
    return Answer(found, weighed, refused, sources.box)


def _sample(opened: Sequence[reading.LogFile]) -> bytes:
    """Some text of several of the files."""
    return b"".join(file.sample(_SAMPLE) for file in opened[:: -(-len(opened) // _SAMPLES)])


def _there(book: casebook.Casebook, attempt: int) -> None:
    """Raises NotFound for an attempt that the logs do not hold."""
    from runward.core import diagnosis

    count = diagnosis.attempts(book)
    if attempt > count:
        held = "one attempt" if count == 1 else f"{count} attempts"
        raise errors.NotFound(
            errors.Problem(f"the log holds {held}, there is no attempt {attempt}", "--attempt")
        )


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
        cited = [e for items in lists for e in items if e.file == path and e.line is None]
        offsets = [e.offset for e in cited if e.offset is not None]
        if offsets:
            lines |= {(path, at): line for at, line in reading.line_numbers(path, offsets).items()}
    counted = [
        tuple(
            e._replace(line=lines.get((e.file or "", -1 if e.offset is None else e.offset), e.line))
            for e in items
        )
        for items in lists
    ]
    return found._replace(evidence=counted[0], counter_evidence=counted[1], echoes=counted[2])


def resolve(targets: Sequence[str], attempt: int | None = None) -> Sources:
    """The logs of files and globs, or what the scheme of a single target offers."""
    if len(targets) == 1 and not log_paths.is_piped(targets[0]):
        _check_one_meaning(targets[0])
    if len(targets) == 1 and not log_paths.is_piped(targets[0]) and not os.path.exists(targets[0]):
        scheme, _, rest = targets[0].partition(":")
        if rest and scheme in _RESOLVERS:
            return _delegate(scheme, rest)
        if not rest and not log_paths.is_path(targets[0]):
            from runward.wiring import runs

            try:
                return runs.diagnosable(targets[0], attempt)
            except errors.NotFound as error:
                raise errors.NotFound(
                    *(_no_file(problem, targets[0]) for problem in error.problems)
                ) from None
    found = log_paths.named(targets, attempt)
    return Sources(found.logs, one_attempt=found.one_attempt, notes=found.notes, files=found.files)


def _check_one_meaning(target: str) -> None:
    """Raises UsageError for a word that is a run and a file."""
    from runward.wiring import places

    if "/" in target or not os.path.exists(target) or not os.path.isdir(places.run_dir(target)):
        return
    step = f"Write run:{target} or ./{target}."
    raise errors.UsageError(errors.Problem(f"{target!r} is a run, and a file here too", next_step=step))


def _no_file(problem: errors.Problem, target: str) -> errors.Problem:
    """A word that is no run may have been meant as a file; what is wrong with an option stays as it is."""
    if problem.where:
        return problem
    return problem._replace(what=f"no such file, and as a run: {problem.what}", where=target)


def _delegate(scheme: str, rest: str) -> Sources:
    from importlib import import_module

    module, _, function = _RESOLVERS[scheme].partition(":")
    found: Sources = getattr(import_module(module), function)(rest)
    return found


def text_log(source: signals.Source, data: bytes) -> app.Log:
    """The log that is there as a whole, however long it is."""
    return app.Log(source, reading.pieces(data), lean=len(data) >= log_paths.SMALL)


def merged(known: contexts.Context, said: contexts.Context) -> contexts.Context:
    """What the user says wins over what a backend knows."""
    changes = {
        name: getattr(said, name)
        for name in contexts.Context._fields
        if getattr(said, name) not in (None, "", (), {})
    }
    return known._replace(**changes)


def case(loaded: app.Engine, raw: Mapping[str, object], folder: str) -> failures.Diagnosis:
    """The diagnosis of one labelled case: `context`, and `log`, `log_file` (relative to `folder`) or `logs` by name."""
    given = raw.get("context")
    ctx = contexts.from_json(given if isinstance(given, Mapping) else {})
    name, many = raw.get("log_file"), raw.get("logs")
    if isinstance(many, Mapping):
        paths = log_names.of_attempt(map(str, many), None)
        owners = log_names.owners_of(paths)
        logs = [_given(path, many[path], owner) for path, owner in zip(paths, owners, strict=True)]
    elif isinstance(name, str):
        logs = [log_paths.open_log(os.path.join(folder, name), [])]
    else:
        logs = [_given("log", raw.get("log"), log_names.Owner())]
    return app.judge(loaded, logs, ctx)


def _given(path: str, text: object, owner: log_names.Owner) -> app.Log:
    """A log of a case that stands in the case itself."""
    data = str(text or "").encode("utf-8", "surrogatepass")
    source = signals.Source(path, owner.rank, owner.node, 2026, owner.local, owner.place)
    return app.Log(source, [log_data.Chunk(0, data)])


def said(*, exit_code: str | None, state: str | None, context_file: str | None) -> contexts.Context:
    """The context of the command line: options, and a JSON file. Raises UsageError, NotFound."""
    raw: dict[str, object] = _json(context_file) if context_file else {}
    if exit_code is not None:
        if not exits.possible(exit_code):
            raise errors.UsageError(
                errors.Problem(f"{exit_code!r} is no exit code: write 1, -9, 137 or 0:15", "--exit-code")
            )
        raw["exit_code"] = exit_code
    if state is not None:
        raw["state"] = state
    return contexts.from_json(raw)


def _met(opened: Sequence[reading.LogFile]) -> list[str]:
    """What reading the files met, once for all that met the same. An empty one among others is nothing to tell."""
    met: dict[str, list[str]] = {}
    for file in opened:
        for note in file.notes:
            met.setdefault(note, []).append(file.path)
    if len(met.get(reading.EMPTY, ())) < len(opened):
        met.pop(reading.EMPTY, None)
    return [
        f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}: {note}"
        for note, paths in met.items()
    ]


def _unheard(state: str) -> list[str]:
    """A word of a scheduler that means nothing to us is not passed over in silence."""
    if not state or schedulers.read(state) is not None:
        return []
    close = errors.nearest(state.strip().upper(), schedulers.WORDS)
    return [f"the scheduler's word {state!r} is not known" + (f" ({close}?)" if close else "")]


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
