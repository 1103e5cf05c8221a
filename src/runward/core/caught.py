"""Failures that a program caught by its own word, and what goes on or comes to a good end after them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runward.core import (
    candidates,
    casebook,
    context,
    failures,
    prefixes,
    regexes,
    signals,
    tracebacks,
    unusual,
)

_C = failures.Cause
_LED = (
    r"(?i)\b(?:with|because of) the following (?:error|exception)s?\b|\bexception (?:when|while|during|raised by)\b"
    r"|\bfailed with (?:parameters|config)|\bexception in (?:ASGI|WSGI|request|handler|callback)\b"
    r"|\bhandling (?:the |a )?request\b"
    r"|(?<!un)\b(?:(?<!watchdog )caught(?! \w+ in \w)|handled|skipped|left out|import failed)\b"
    r"|\bfailed to import\b|\berror when (?:executing|calling) tool\b"
)
"""Words before a traceback that is printed by whom it did not end."""
_HANDLED = (
    r"(?i)\b(?:fall(?:ing|s)? back|fell back|re-?run(?:ning)?|re-?try(?:ing|ied)?"
    r"|tr(?:y|ying) (?:again|once more|batch|the next|a smaller|with|another)|skipp(?:ing|ed)|ignor(?:ing|ed)"
    r"|continuing|going on|carrying on|recovered|restoring|repeat(?:ing|ed)|left out|instead|halving|lowering"
    r"|reducing|is disabled|disabling|pruned|marked as failed|failed with value"
    r"|(?:they|it|files?)(?: are| is)? (?:kept|stays?|remains?)|kept (?:under|in|locally|offline)|saved offline)\b"
)
"""Words behind it of a program that goes on."""
_FATAL = (
    r"(?i)\bfatal\b|\bun(?:caught|handled|recoverable)\b|\babort|\bgiv(?:ing|es|e) up\b|\bgave up\b|\bexiting\b"
    r"|\bcrash|\bcannot go on\b|\bterminat|\berror executing job\b"
    r"|\b(?:training|run|job|main|pipeline|program|script|experiment|everything|all attempts)"
    r"\b.{0,20}\b(?:failed|died|error)"
)
_BAD = (
    r"(?i)\b(?:errors?|exceptions?|fail(?:ed|ures?|s)?|fatal|abort\w*|killed|crash\w*|traceback|cancel\w*"
    r"|terminat\w*|giving up|gave up|incomplete|un(?:finished|caught|handled)|not (?:finished|complete\w*|saved)"
    r"|exit(?:ed)? (?:code|status)|no checkpoint)\b"
)
_NOT_BAD = (
    r"(?i)\b(?:0|no|none|zero|without)(?: \w+)? (?:errors?|exceptions?|fail(?:ed|ures?))\b"
    r"|\b(?:errors?|fail(?:ed|ures?))\b(?: \w+)? ?[:=]? ?(?:0|none)\b|\bHTTP/\d|\berror (?:rate|bars?)\b"
    r"|\b(?:mean|squared|absolute|test|train|relative) errors?\b"
)
_GOOD = (
    r"(?i)\b(?:done|finish(?:ed)?|complete[ds]?|converged|success\w*|succeeded|passed|saved|wrote|written|exported"
    r"|all \d+)\b|\bok\W*$|\bbest (?:trial|run|value|config\w*|(?:hyper)?param\w*)\b"
    r"|\b(?:best|mean|score|accuracy|auc|f1|ppl|loss|reward)\b.{0,60}\d\.\d"
)
"""Words of a last line that tells of a good end, or of what was won."""
_ASIDE = (
    r"(?i)^(?:wandb|mlflow|comet|neptune)\b|clean|\bupload|\bclos(?:ing|ed)|\bshut|\btear|\bsync|\bexit|emergency"
    r"|last[ _]checkpoint|interrupt|^(?:job|script|run|task|slurm\w*|srun|end of|real|user|sys)\b|^[+#=-]"
    r"|^(?:mon|tue|wed|thu|fri|sat|sun) \w{3} |^(?:[A-Z]{2,5} )?\d{4}$"
)
"""Words of a clean-up or of a shell, which come after any end."""
_NEXT, _NEXT_OF_TOP = 3, 1
"""Lines behind a traceback that may tell what became of it: behind one that looks uncaught a buffer may be emptied."""
_CHAINED = r"^During handling of the above exception|^The above exception was the direct cause"
_ROWS, _MANY = 2, 3
"""Ordinary lines that must follow what is told to be caught, and what only looks so."""
_TOP = frozenset(
    (
        *("", "<module>", "<lambda>", "_bootstrap", "_bootstrap_inner", "_run_code", "_run_module_as_main"),
        *("wrapper", "_wrap", "run", "_worker_loop", "_worker", "_pin_memory_loop", "worker"),
    )
)
"""Outermost frames of a traceback that nobody caught."""
_PASSED = (
    r"(?m)^=+ (?!.*\b(?:failed|errors?)\b).*\b\d+ passed\b.* in [\d.]+s.*=+[ \t\r]*$"
    r"|^(?!.*\b(?:failed|errors?)\b)\d+ passed\b.{0,80} in [\d.]+s[ \t\r]*$|^Ran \d+ tests? in [\d.]+s\s+^OK\b"
    r"|\b100% tests passed, 0 tests failed out of \d+|^\[  PASSED  \] \d+ tests?"
)
_SESSION = r"(?m)^=+ test session starts =+|^\[=+\] Running \d+ tests?|^Test project /"
_TOLD_LATE = 2048
"""So near to the end of its log does a program of tests tell how they went."""
_TOGETHER = (*failures.TIMEOUTS, _C.NCCL_ERROR, _C.NETWORK, _C.GPU_HARDWARE)
"""What no rank goes on after by itself: only plain words show that it was caught."""
_SHELL = "+ "
_NEAR = 4096
"""Bytes around a traceback in which the lines next to it stand."""
_TUNING = "compile"


class _Row(NamedTuple):
    rank: int | None
    text: str


def left(
    found: list[candidates.Candidate], book: casebook.Casebook, ctx: context.Context
) -> list[candidates.Candidate]:
    """Without what was caught, of a run that lives, ended with 0, or of which nothing more is known."""
    known = ctx.may_be_well
    if not found or not (known or (ctx.exit is None and not ctx.state)):
        return found
    tested = {} if ctx.running is True else {name: _tested(name, book) for name in book.edges}
    tuned = _tuned(book) if known else {}
    logs = {file: _Log(file, book) for file in {one.file for one in found if one.traceback}}
    lives = ctx.running is True
    return [
        one
        for one in found
        if not (_within(one, tested) or _in_tuning(one, tuned) or _caught(one, logs, lives=lives))
    ]


class _Log:
    """The tracebacks of a log, and what stands around them."""

    def __init__(self, file: str | None, book: casebook.Casebook) -> None:
        edges = book.edges.get(signals.whole(file)) or casebook.Edges()
        self._text, self._start = edges.tail, edges.cut
        every = {one.offset: one for one in (*book.first_tracebacks, *book.tracebacks) if one.file == file}
        self.traces = sorted(every.values(), key=lambda one: one.offset or 0)
        late = _rows(self._behind(self.traces[-1], len(self._text))) if self.traces else []
        self.rows = list(itertools.takewhile(lambda row: not row.text.startswith(_SHELL), late))
        """The messages behind the last traceback, up to where a shell tells what it does next."""
        self.chains: dict[int | None, list[tracebacks.Traceback]] = {}
        """By the place of each traceback those of one exception and of what it was raised from, as they are printed."""
        chain: list[tracebacks.Traceback] = []
        for one in self.traces:
            chain.append(one)
            self.chains[one.offset] = chain
            rows = self.next(one, 1)
            chain = chain if rows and regexes.ready(_CHAINED).search(rows[0].text) else []

    def lead(self, trace: tracebacks.Traceback) -> str:
        """The line that stands right before a traceback."""
        at = (trace.start or 0) - self._start
        lines = self._text[max(0, at - _NEAR) : at].rstrip(b"\r\n").rsplit(b"\n", 1) if at > 0 else []
        return lines[-1].decode("utf-8", "replace") if lines else ""

    def next(self, trace: tracebacks.Traceback, count: int) -> list[_Row]:
        """The first messages behind a traceback, up to the next one."""
        return _rows(self._behind(trace, _NEAR + len(trace.text)))[:count]

    def _behind(self, trace: tracebacks.Traceback, most: int) -> list[str]:
        at = (trace.offset or 0) - self._start
        if at < 0:
            return []
        rest = self._text[at : at + most].partition(b"\n")[2]
        mark = rest.find(tracebacks.START.encode())
        rest = rest if mark < 0 else rest[: rest.rfind(b"\n", 0, mark) + 1]
        return [line for line, _ in unusual.lines(rest, 0)]


def _caught(one: candidates.Candidate, logs: Mapping[str | None, _Log], *, lives: bool) -> bool:
    trace = one.traceback
    if trace is None or trace.offset is None or one.terminal or one.ends:
        return False
    log = logs[one.file]
    rows = [row for row in log.rows if not lives or row.rank == one.rank]
    needed = _needed(trace, log, lives=lives)
    if needed == _MANY and one.cause in _TOGETHER:
        return False
    return needed is not None and _goes_on(rows, needed) and (lives or _ends_well(rows))


def _needed(trace: tracebacks.Traceback, log: _Log, *, lives: bool) -> int | None:
    """How many ordinary lines prove that a traceback was caught; None where nothing says that it was."""
    chain = log.chains.get(trace.offset, [trace])
    lead, last = log.lead(chain[0]), chain[-1]
    if regexes.ready(_FATAL).search(lead):
        return None
    again = [other for other in log.traces if (other.name, other.where) == (trace.name, trace.where)]
    if lives and len(again) > 1:
        return None  # it may be a loop around a program that fails again and again
    if _handled(chain, log) or any(_handled(log.chains[other.offset], log) for other in again):
        return _ROWS
    within = last.outer not in _TOP
    own = [other for other in again if (other.rank, other.voice) == (trace.rank, trace.voice)]
    led = prefixes.split(lead[:400]).level in (*signals.CALM, *signals.ALARMS)
    return _MANY if within and (led or len(own) > 1) else None


def _handled(chain: Sequence[tracebacks.Traceback], log: "_Log") -> bool:
    """Whether the words before or behind an exception say so."""
    last = chain[-1]
    nearest = log.next(last, _NEXT_OF_TOP if last.outer in _TOP else _NEXT)
    said = regexes.ready(_LED).search(log.lead(chain[0]))
    return bool(said) or any(regexes.ready(_HANDLED).search(row.text) for row in nearest)


def _rows(lines: Sequence[str]) -> list[_Row]:
    """Lines that begin a message of their own."""
    fronts = (prefixes.split(line[:400]) for line in lines)
    return [
        _Row(front.rank, front.body.rstrip())
        for front in fronts
        if (front.indent < 2 or front.level) and any(map(str.isalnum, front.body))
    ]


def _goes_on(rows: Sequence[_Row], needed: int) -> bool:
    """Whether what follows is ordinary work."""
    plain = 0
    for row in rows:
        handled = regexes.ready(_HANDLED).search(row.text)
        if regexes.ready(_FATAL).search(row.text) or (not handled and _bad(row.text)):
            return False
        plain += not regexes.ready(_ASIDE).search(row.text)
    return plain >= needed


def _bad(text: str) -> bool:
    return bool(regexes.ready(_BAD).search(text)) and not regexes.ready(_NOT_BAD).search(text)


def _ends_well(rows: Sequence[_Row]) -> bool:
    last = next((row.text for row in reversed(rows)), "")
    return bool(regexes.ready(_GOOD).search(last) or regexes.ready(_NOT_BAD).search(last))


# -- tests and tuning, which fail on purpose ---------------------------------------------------------------------


def _tested(name: str | None, book: casebook.Casebook) -> range:
    """The part of a log in which a program of tests, all of which passed, printed what they are about."""
    edges = book.edges[name]
    text, start = edges.tail, edges.cut
    late = max(0, len(text) - _TOLD_LATE)
    if b"passed" not in text[late:] and b"PASSED" not in text[late:] and b"\nOK" not in text[late:]:
        return range(0)
    words = text.decode("latin-1")
    ends = [one.end() for one in regexes.ready(_PASSED).finditer(words) if one.end() > late]
    if not ends or tracebacks.START in words[ends[-1] :] or "[  FAILED  ]" in words:
        return range(0)
    begun = [one.start() for one in regexes.ready(_SESSION).finditer(words, 0, ends[-1])]
    if not begun and any(one.file == name for one in book.advances):
        return range(0)
    return range(start + begun[-1] if begun else 0, start + ends[-1])


def _within(one: candidates.Candidate, parts: dict[str | None, range]) -> bool:
    offset = one.entry.signal.offset if one.entry else None
    return offset is not None and offset in parts.get(one.file, ())


def _tuned(book: casebook.Casebook) -> dict[str | None, range]:
    """From the first to the last word of compiling and tuning kernels, by log."""
    parts: dict[str | None, range] = {}
    for entry in book.entries(signals.Role.PHASE):
        rule = book.rules.get(entry.signal.rule)
        if rule is not None and rule.phase == _TUNING:
            first = parts.get(entry.signal.file, range(entry.order, 0)).start
            parts[entry.signal.file] = range(first, entry.order + 1)
    return parts


def _in_tuning(one: candidates.Candidate, parts: dict[str | None, range]) -> bool:
    """Whether a candidate kernel failed that is left out, as the next ones are tried."""
    bare = one.traceback is None and not (one.terminal or one.ends) and one.weight < candidates.PROOF
    return bare and one.cause in (_C.EXCEPTION, _C.CUDA_ERROR) and one.order in parts.get(one.file, ())
