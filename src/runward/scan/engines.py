"""Multi-literal search: where do any of these byte strings stand in a buffer?

Three interchangeable engines, fastest first. Each is tried on a text of known answer before it is used; the
first one that answers it exactly is taken, and the steps down are told to the caller. Only plain literals are
ever given to a native engine: no verdict rests on somebody else's regular expressions.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from runward.core import vocabulary
from runward.scan import trie

Literal = vocabulary.Literal
Stops = list[tuple[int, int]]
"""(end of the literal, index of the literal), ascending; overlapping ones included."""


class Engine(Protocol):
    """Finds literals. Not for several threads at once."""

    name: str

    def stops(self, data: bytes | bytearray, start: int, end: int) -> Stops:
        """Ends of all literals within `data[start:end]`, counted from `start`. Valid until the next call."""
        ...


class Pyperscan:
    """Vectorscan through pyperscan: SIMD, one report an occurrence."""

    name = "pyperscan"

    def __init__(self, wanted: Sequence[Literal]) -> None:
        import pyperscan  # noqa: PLC0415 -- optional, and 15 ms

        self._found: Stops = []
        append, go_on = self._found.append, pyperscan.Scan.Continue

        def report(_context: None, literal: int, _start: int, end: int, /) -> pyperscan.Scan:
            append((end, literal))
            return go_on

        caseless = (pyperscan.Flag.CASELESS,)
        patterns = [
            pyperscan.Pattern(_escaped(text), *(caseless if nocase else ()), tag=place)
            for place, (text, nocase) in enumerate(wanted)
        ]
        self._scan: Callable[[memoryview], object] = (
            pyperscan.BlockDatabase(*patterns).build(None, report).scan
        )

    def stops(self, data: bytes | bytearray, start: int, end: int) -> Stops:
        """As `Engine.stops`."""
        found = self._found
        found.clear()
        with memoryview(data) as view, view[start:end] as part:
            self._scan(part)
        found.sort()  # the library promises no order; it is nearly sorted
        return found


_NUMBERS = [b"\\x%02x" % byte for byte in range(256)]


def _escaped(text: bytes) -> bytes:
    """Every byte by number: nothing in it can be syntax, and no NUL ends it early."""
    return b"".join([_NUMBERS[byte] for byte in text])


class AhoCorasick:
    """The Rust automaton of ahocorasick-rs over a copy in lower case."""

    name = "ahocorasick"

    def __init__(self, wanted: Sequence[Literal]) -> None:
        import ahocorasick_rs  # noqa: PLC0415 -- optional

        places: dict[bytes, list[int]] = {}
        for place, (text, _) in enumerate(wanted):
            places.setdefault(text.lower(), []).append(place)
        self._places = list(places.values())
        self._exact = [None if nocase else text for text, nocase in wanted]
        self._find = ahocorasick_rs.BytesAhoCorasick(
            list(places), implementation=ahocorasick_rs.Implementation.DFA
        ).find_matches_as_indexes

    def stops(self, data: bytes | bytearray, start: int, end: int) -> Stops:
        """As `Engine.stops`."""
        exact, places = self._exact, self._places
        part = bytes(data[start:end])
        found: Stops = []
        for word, first, last in self._find(part.lower(), overlapping=True):
            for place in places[word]:
                text = exact[place]
                if text is None or part.startswith(text, first):
                    found.append((last, place))
        found.sort()  # ascending already, but for literals that end together
        return found


class Stdlib:
    """`re` over a trie of short, rare windows; needs nothing that Python does not bring."""

    name = "stdlib"

    def __init__(self, wanted: Sequence[Literal]) -> None:
        self._search = trie.compiled([text.lower() for text, _ in wanted])
        self._exact = [None if nocase else text for text, nocase in wanted]

    def stops(self, data: bytes | bytearray, start: int, end: int) -> Stops:
        """As `Engine.stops`."""
        exact = self._exact
        part = bytes(data[start:end])
        found: Stops = []
        for first, last, place in self._search(part.lower()):
            text = exact[place]
            if text is None or part.startswith(text, first):
                found.append((last, place))
        found.sort()
        return found


ENGINES: dict[str, Callable[[Sequence[Literal]], Engine]] = {
    "pyperscan": Pyperscan,
    "ahocorasick": AhoCorasick,
    "stdlib": Stdlib,
}


MISSING = "not installed"


class Choice(NamedTuple):
    """The engine that is used, and why it is not a faster one."""

    engine: Engine
    notes: tuple[str, ...]


def choose(wanted: Sequence[Literal], only: str | None = None) -> Choice:
    """The fastest engine that passes its test. `only` asks for one by name; the standard library's is last.

    Every process tests: a home directory serves processors of many kinds, and their instructions differ.
    """
    notes: list[str] = []
    for name in [only] if only else list(ENGINES):
        try:
            engine = ENGINES[name](wanted)
        except ImportError:
            notes.append(f"{name}: {MISSING}")
            continue
        except Exception as error:  # noqa: BLE001 -- a native library may refuse in any way; the next engine does the work
            notes.append(f"{name}: cannot be used: {type(error).__name__}: {error}"[:300])
            continue
        fault = differs(engine, wanted)
        if fault is None:
            return Choice(engine, tuple(notes))
        notes.append(f"{name}: wrong answer in its test: {fault}")
    return Choice(Stdlib(wanted), tuple(notes))


def differs(engine: Engine, wanted: Sequence[Literal]) -> str | None:
    """What `engine` gets wrong on a text that holds every literal, whole, cut and in other cases; or None.

    Each literal must be reported where it was put, nothing where it is not, and all in order.
    """
    text, planted = _trial(wanted)
    low = text.lower()
    try:
        got = list(engine.stops(b"xyz" + text, 3, 3 + len(text)))
    except Exception as error:  # noqa: BLE001 -- as above
        return f"{type(error).__name__}: {error}"[:300]
    for stop, place in got:
        word, nocase = wanted[place]
        if not (low if nocase else text).startswith(word, stop - len(word)):
            return f"literal {word!r} is not at byte {stop}"
    missing = min(planted.difference(got), default=None)
    if missing is not None:
        return f"literal {wanted[missing[1]].text!r} at byte {missing[0]}"
    return None if got == sorted(set(got)) else "not in order"


def _trial(wanted: Sequence[Literal]) -> tuple[bytes, set[tuple[int, int]]]:
    """A text, and where in it each literal ends at least."""
    chance = random.Random(len(wanted))  # noqa: S311 -- the same text every time
    text = bytearray()
    planted: set[tuple[int, int]] = set()
    for place, (word, nocase) in enumerate(wanted):
        text += chance.randbytes(place % 23) + word
        planted.add((len(text), place))
        cut = place % len(word)
        text += word[:cut] + b"\n" + word[cut:]
        if not cut:
            planted.add((len(text), place))
        text += word.swapcase()
        if nocase:
            planted.add((len(text), place))
    return bytes(text), planted
