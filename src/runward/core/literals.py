"""Required literals of a regular expression: strings of which at least one stands in every match.

A multi-literal engine looks for these, and `re` confirms around a hit. Reads `re`'s own parse tree, which is
private to Python: when that cannot be had, `required` answers None and the pattern is refused by its loader
or run on every line.
"""

import functools
import itertools
import re
from typing import Any, NamedTuple

_c: Any = getattr(re, "_constants", None)
_p: Any = getattr(re, "_parser", None)

MIN_LENGTH, MAX_ALTERNATIVES, MAX_BRANCHES, FAR = 3, 24, 96, 4096
_MAX_UNROLLED = 8
COMMON = (
    b"[2026-11-02 10:11:12,000] [rank0]: [default0]: INFO - root - iteration 120/ 5000 | consumed samples: 1024 | "
    b"elapsed time per iteration (ms): 503.1 | throughput per GPU (TFLOP/s/GPU): 412.0 | learning rate: 1.0E-04 | "
    b"global batch size: 1024 | lm loss: 2.30E+00 | "
    b"loss scale: 1.0 | grad norm: 0.412 | number of skipped iterations: 0 | number of nan iterations: 0 |\n"
    b"{'loss': 1.23, 'grad_norm': 0.9, 'learning_rate': 2e-05, 'epoch': 0.12} 12%|# | 12/100 [00:10<01:00, 2.1it/s]\n"
    b"step: 80 loss: 4.1 grad_norm: 1.1 memory: 5.71GiB(6.01%) tps: 57,729 tflops: 78.76 mfu: 7.96% train epoch 3\n"
    b"node0123:8121:8301 [2] NCCL INFO Channel 03/0 : 12[3] -> 13[4] via P2P/CUMEM/read comm 0x7f3a5c00 nranks 64\n"
    b"node0123:8121:8301 [2] NCCL INFO AllReduce: opCount 4f sendbuff 0x7f0a recvbuff 0x7f0b count 1024 datatype 9\n"
    b"/usr/lib/python3/site-packages/torch/distributed/x.py:123: UserWarning: at 0x00 memory (MB) | allocated: 1.0\n"
    b"(RayTrainWorker pid=4121, ip=10.0.0.7) INFO worker.py:81 -- step 80 (WorkerDict pid=4122) epoch 1 reward 0.3\n"
    b"DEBUG:utils: worker host data.loader forward-backward ............: (0.1, 0.2) rank checkpoint saved to /tmp\n"
    b"data.loader 12 shards loaded, 0 failed\n"
)
"""What healthy training prints, and a word of most errors: of the literals that a pattern offers, those are taken that
stand here least often."""
_COMMON_LOW = COMMON.lower()


class Required(NamedTuple):
    """Literals of a pattern, and how many bytes after the match's start they begin."""

    alternatives: tuple[str, ...]
    """UTF-8, lower case where `nocase`; bytes that are no UTF-8 are surrogates (`as_bytes` undoes it)."""
    nocase: bool
    lo: int
    hi: int | None
    """None: no bound."""

    def as_bytes(self) -> tuple[bytes, ...]:
        """The literals as they stand in a log."""
        return tuple(text.encode("utf-8", "surrogateescape") for text in self.alternatives)


class _Candidate(NamedTuple):
    alternatives: tuple[bytes, ...]
    lo: int
    hi: int

    nocase: bool

    @property
    def score(self) -> tuple[int, int, int, int]:
        """Seldom in healthy text first, then a longer shortest literal, then fewer of them, then a fixed place."""
        often = sum(_often(text, nocase=self.nocase) for text in self.alternatives if text)
        shortest = min(map(_worth, self.alternatives))
        return (
            -often if shortest >= MIN_LENGTH else -len(COMMON),
            shortest,
            -len(self.alternatives),
            self.lo - self.hi,
        )


@functools.lru_cache(maxsize=4096)
def _often(text: bytes, *, nocase: bool) -> int:
    return _COMMON_LOW.count(text.lower()) if nocase else COMMON.count(text)


def _worth(text: bytes) -> int:
    """Its length; a run of one byte is worth little: it stands many times in each longer run."""
    return len(text) if len(set(text)) > 1 else 1


class _Walk:
    """One pass over a sequence of parsed tokens: candidates, and the exact set of texts if it is finite."""

    def __init__(self, *, nocase: bool, lo: int, hi: int) -> None:
        self.nocase, self.lo, self.hi = nocase, lo, hi
        self.candidates: list[_Candidate] = []
        self.run, self.run_lo, self.run_hi, self.exact = [b""], lo, hi, True

    def over(self, tokens: Any) -> "_Walk":
        """Take all of `tokens`; `candidates` and `texts` are the result."""
        for place, (op, av) in enumerate(tokens):
            if op is _c.LITERAL:  # most of any pattern
                self.run = [text + bytes((av,)) for text in self.run]
                self.lo, self.hi = min(self.lo + 1, FAR), min(self.hi + 1, FAR)
            else:
                self._token(op, av, tokens[place : place + 1].getwidth())
        if all(self.run):
            self.candidates.append(_Candidate(tuple(self.run), self.run_lo, self.run_hi, self.nocase))
        return self

    @property
    def texts(self) -> list[bytes] | None:
        """Every text that the sequence can match, when these are few and known."""
        return self.run if self.exact else None

    def _token(self, op: Any, av: Any, width: tuple[int, int]) -> None:
        unit = self._unit(op, av)
        if unit is not None:
            self._open_repeat(unit, av[0], av[1], width)
            return
        texts = self._texts(op, av)
        after = (min(self.lo + width[0], FAR), min(self.hi + width[1], FAR))
        joined = self._joined(texts)
        if joined is not None:
            self.run = joined
        else:
            if all(self.run):
                self.candidates.append(_Candidate(tuple(self.run), self.run_lo, self.run_hi, self.nocase))
            self.exact = False
            short = texts is not None and len(texts) <= MAX_ALTERNATIVES
            self.run = texts if short and texts is not None else [b""]
            self.run_lo, self.run_hi = (self.lo, self.hi) if short else after
        self.lo, self.hi = after

    def _unit(self, op: Any, av: Any) -> bytes | None:
        """What a repetition without bound repeats, if that is one text which stands there at least once."""
        if (
            op not in (_c.MAX_REPEAT, _c.MIN_REPEAT, _c.POSSESSIVE_REPEAT)
            or not 0 < av[0] < _MAX_UNROLLED < av[1]
        ):
            return None
        texts = self._inner(av[2]).texts
        return texts[0] if texts is not None and len(texts) == 1 and texts[0] else None

    def _open_repeat(self, unit: bytes, least: int, most: int, width: tuple[int, int]) -> None:
        """Its first rounds belong to the text before it, its last ones to the text behind it."""
        joined = self._joined([unit * least])
        if joined is not None:
            self.candidates.append(_Candidate(tuple(joined), self.run_lo, self.run_hi, self.nocase))
        elif all(self.run):
            self.candidates.append(_Candidate(tuple(self.run), self.run_lo, self.run_hi, self.nocase))
        self.exact = False
        self.run, self.run_lo = [unit * least], self.lo
        self.run_hi = min(self.hi + len(unit) * (most - least), FAR)
        self.lo, self.hi = min(self.lo + width[0], FAR), min(self.hi + width[1], FAR)

    def _joined(self, texts: list[bytes] | None) -> list[bytes] | None:
        if texts is None or len(texts) * len(self.run) > MAX_ALTERNATIVES * 4:
            return None
        joined = list(dict.fromkeys(a + b for a, b in itertools.product(self.run, texts)))
        return joined if len(joined) <= MAX_ALTERNATIVES else None

    def _texts(self, op: Any, av: Any) -> list[bytes] | None:
        """The finite set of texts that a token matches, if it is one; adds candidates from inside it."""
        if op in (_c.AT, _c.ASSERT, _c.ASSERT_NOT):
            return [b""]  # to ignore it only widens
        if op is _c.IN:
            return _members(av)
        if op is _c.SUBPATTERN:
            return self._group(av[3])
        if op is _c.ATOMIC_GROUP:
            return self._group(av)
        if op is _c.BRANCH:
            return self._branch(av[1])
        if op in (_c.MAX_REPEAT, _c.MIN_REPEAT, _c.POSSESSIVE_REPEAT):
            return self._repeat(*av)
        return None

    def _inner(self, tokens: Any) -> "_Walk":
        return _Walk(nocase=self.nocase, lo=self.lo, hi=self.hi).over(tokens)

    def _group(self, tokens: Any) -> list[bytes] | None:
        inner = self._inner(tokens)
        if inner.texts is None:
            self.candidates += inner.candidates
        return inner.texts

    def _branch(self, branches: Any) -> list[bytes] | None:
        walked = [self._inner(branch) for branch in branches]
        exact = [walk.texts for walk in walked if walk.texts is not None]
        if len(exact) == len(walked):
            return [text for texts in exact for text in texts]
        if all(walk.candidates for walk in walked):
            best = [max(walk.candidates, key=lambda c: c.score) for walk in walked]
            texts = tuple(dict.fromkeys(text for one in best for text in one.alternatives))
            if len(texts) <= MAX_BRANCHES:
                self.candidates.append(
                    _Candidate(texts, min(b.lo for b in best), max(b.hi for b in best), self.nocase)
                )
        return None

    def _repeat(self, least: int, most: int, tokens: Any) -> list[bytes] | None:
        inner = self._inner(tokens)
        texts = inner.texts
        if texts is not None and most <= _MAX_UNROLLED and len(texts) == 1:
            return [texts[0] * times for times in range(least, most + 1)]
        if texts is not None and least == most <= 64 and len(texts) ** min(most, 8) <= MAX_ALTERNATIVES:
            return [b"".join(parts) for parts in itertools.product(texts, repeat=most)]
        if texts is not None and (least, most) == (0, 1):
            return [b"", *texts]
        if least >= 1:  # the first round stands; later ones only push the rest further out
            self.candidates += inner.candidates
        return None


def _members(items: Any) -> list[bytes] | None:
    """The bytes of a small character class."""
    if len(items) > 3 or any(op is not _c.LITERAL for op, _ in items):
        return None
    return [bytes((value,)) for _, value in items]


@functools.lru_cache(maxsize=4)
def parsed(pattern: bytes) -> Any:
    """`re`'s parse tree, which nobody changes; None where it cannot be had. Several questions are asked of each."""
    return _p.parse(pattern) if _p is not None and _c is not None else None


def required(pattern: str | bytes) -> Required | None:
    r"""The best literals of `pattern`, or None when no text of 3 bytes must stand in a match.

    >>> required(r"Xid \(PCI:(?P<bus>[0-9a-f:.]+)\): 79").alternatives
    ('Xid (PCI:',)
    """
    tree = parsed(pattern.encode() if isinstance(pattern, str) else pattern)
    if tree is None:
        return None
    nocase = bool(tree.state.flags & re.IGNORECASE) or _scoped_nocase(tree)
    walk = _Walk(nocase=nocase, lo=0, hi=0).over(tree)
    usable = [c for c in walk.candidates if min(map(len, c.alternatives)) >= MIN_LENGTH]
    return _reduced(max(usable, key=lambda c: c.score), nocase=nocase) if usable else None


def heads(pattern: str) -> tuple[tuple[str, int], ...]:
    r"""Texts and how far behind a match's start they stand: each match has one of them there. Empty: not known.

    >>> heads(r"\bloss\b.{0,9}\bnan|found .*")
    (('loss', 0), ('found ', 0))
    """
    tree = parsed(pattern.encode()) if pattern.isascii() else None
    if tree is None or tree.state.flags & re.IGNORECASE or _scoped_nocase(tree):
        return ()
    rest: Any = [
        token for token in tree if token[0] is not _c.AT
    ]  # `re` puts a common `\\b` before all branches
    branches = rest[0][1][1] if len(rest) == 1 and rest[0][0] is _c.BRANCH else [tree]
    found: list[tuple[str, int]] = []
    for branch in branches:
        walked = _Walk(nocase=False, lo=0, hi=0).over(branch).candidates
        fixed = [c for c in walked if c.lo == c.hi and min(map(len, c.alternatives)) >= MIN_LENGTH]
        if not fixed:
            return ()
        best = max(fixed, key=lambda c: c.score)
        found += [(text.decode("utf-8", "surrogateescape"), best.lo) for text in best.alternatives]
    return tuple(found)


def anchored(pattern: bytes) -> bool:
    """Whether a match can only begin where a line begins."""
    tokens = parsed(pattern)
    return bool(tokens) and tokens[0] == (_c.AT, _c.AT_BEGINNING)


def _scoped_nocase(tokens: Any) -> bool:
    """Whether a group inside turns case off, as in `(?i:...)`: then all literals are taken without case."""
    for op, av in tokens:
        if op is _c.SUBPATTERN and av[1] & re.IGNORECASE:
            return True
        if any(_scoped_nocase(inner) for inner in subtrees(op, av)):
            return True
    return False


def subtrees(op: Any, av: Any) -> list[Any]:
    """The sequences of tokens inside a token of `re`'s parse tree."""
    if op is _c.SUBPATTERN:
        return [av[3]]
    if op is _c.ATOMIC_GROUP:
        return [av]
    if op is _c.BRANCH:
        return list(av[1])
    if op in (_c.MAX_REPEAT, _c.MIN_REPEAT, _c.POSSESSIVE_REPEAT):
        return [av[2]]
    if op in (_c.ASSERT, _c.ASSERT_NOT):
        return [av[1]]
    if op is _c.GROUPREF_EXISTS:
        return [part for part in av[1:] if part is not None]
    return []


def _reduced(best: _Candidate, *, nocase: bool) -> Required:
    """Without literals that contain another one; those make the place of the shorter one less certain."""
    texts = list(dict.fromkeys(text.lower() if nocase else text for text in best.alternatives))
    keep = [t for t in texts if not any(other != t and other in t for other in texts)]
    hi = best.hi + max((_shift(text, keep) for text in texts if text not in keep), default=0)
    shown = tuple(text.decode("utf-8", "surrogateescape") for text in keep)
    return Required(shown, nocase, best.lo, None if hi >= FAR else hi)


def _shift(dropped: bytes, keep: list[bytes]) -> int:
    """How much further in a kept literal sits, where a longer one that contains it was dropped."""
    return max((dropped.rfind(text) for text in keep if text in dropped), default=0)
