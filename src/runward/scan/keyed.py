"""An engine that looks for short parts of the literals, many of which share one, and compares the rest itself.

What is found is the same: see `core.vocabulary`.
"""

import copy
from collections.abc import Callable, Sequence

from runward.core import vocabulary
from runward.scan import engines

_Text = bytes | bytearray
_Row = tuple[int, int, bytes, bool]
"""A literal's place, how far behind its begin the part ends, the literal itself, and whether its case is open."""
_SEVERAL, _NONE, _UNMET = -1, -2, -3


class Keyed:
    """`engines.Engine` over another one, which looks for `parts`: see `over`."""

    name: str
    _inner: Callable[[_Text, int, int], engines.Stops]

    def __init__(self, words: vocabulary.Vocabulary) -> None:
        """`words` have parts."""
        self._words, self.parts = words, words.looked_for()
        self._members = words.members
        """Of each part: the literals that it may stand for."""
        self._rows: dict[int, list[_Row]] = {}
        self._whole = [_UNMET] * len(self.parts)
        """The one literal that a part is, all of it; else `_SEVERAL`, `_NONE` or `_UNMET`."""

    def over(self, inner: engines.Engine) -> "Keyed":
        """The same, ready: `inner` looks for the parts."""
        self.name, self._inner = inner.name, inner.stops
        return self

    def only(self, wanted: Sequence[bool]) -> "Keyed":
        """The same for some of the literals, with their places."""
        made = copy.copy(self)
        made.keep(wanted)
        return made

    def keep(self, wanted: Sequence[bool]) -> None:
        """Report these literals only."""
        self._members = [[place for place in row if wanted[place]] for row in self._members]
        self._rows, self._whole = {}, [_UNMET] * len(self._members)

    def _meet(self, part: int) -> int:
        """A part stands in the text for the first time: only now is made ready what it may stand for."""
        words = {place: self._words.literal(place) for place in self._members[part]}
        row = [(place, self._at(place, part), *word) for place, word in words.items()]
        self._rows[part] = row
        whole = row[0][0] if len(row) == 1 and words[row[0][0]] == self.parts[part] else _SEVERAL
        self._whole[part] = whole if row else _NONE
        return self._whole[part]

    def _at(self, place: int, part: int) -> int:
        """How far behind the begin of a literal its part ends."""
        return self._words.begins[place] + len(self.parts[part].text)

    def stops(self, data: _Text, start: int, end: int) -> engines.Stops:
        """As `engines.Engine.stops`."""
        whole, rows = self._whole, self._rows
        found: engines.Stops = []
        for stop, part in self._inner(data, start, end):
            place = whole[part]
            if place == _UNMET:
                place = self._meet(part)
            if place >= 0:
                found.append((stop, place))
                continue
            if place == _NONE:
                continue
            for place, behind, text, nocase in rows[part]:
                at = stop - behind
                if at < 0:
                    continue
                there = start + at
                if nocase:  # few places: to lower the whole text costs more than to look at each of them
                    same = data[there : min(there + len(text), end)].lower() == text
                else:
                    same = data.startswith(text, there, end)
                if same:
                    found.append((at + len(text), place))
        found.sort()
        return found
