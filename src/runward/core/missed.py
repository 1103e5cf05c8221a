"""Ranks that did not come where others waited, and how that is known."""

from dataclasses import dataclass, replace

from runward.core import casebook, failures, regexes


@dataclass(frozen=True, slots=True)
class Suspects:
    """Ranks that did not join, and why they are named."""

    ranks: tuple[int, ...]
    why: str
    proven: bool
    """The ranks' own counters say so, or there is only one other rank: it hangs."""
    entries: tuple[casebook.Entry, ...] = ()
    proof: tuple[failures.Evidence, ...] = ()
    """What does not stand in the log."""
    node: str = ""
    """The one node whose ranks these are: all of them, and it holds several."""
    work: casebook.Entry | None = None
    """A work that it does alone and that takes longer than the others wait."""
    helps: failures.Action | None = None
    """What helps where the program itself parts it from the others, as it would again after a restart."""

    setup: bool = False
    """Whether it is set up unlike the others: it would be so again."""

    @property
    def rank(self) -> int | None:
        """The one, where it is one."""
        return self.ranks[0] if len(self.ranks) == 1 else None

    @property
    def told(self) -> str:
        """Who did not join, in words; only why where no rank is known to be the one."""
        names = ", ".join(map(str, self.ranks[:_NAMED])) + (" ..." if len(self.ranks) > _NAMED else "")
        word = "rank" if len(self.ranks) == 1 else "ranks"
        return f"{word} {names} did not join ({self.why})" if self.ranks else self.why


_NAMED = 8


def placed(found: Suspects, book: casebook.Casebook) -> Suspects:
    """The suspects, with the one node of several whose ranks they are."""
    known = book.voices
    nodes = known.nodes if len(found.ranks) > 1 else ()
    on = [node for node in nodes if known.on_node(node) == set(found.ranks)]
    return replace(found, node=on[0]) if len(on) == 1 and len(nodes) > 1 else found


def lagging(book: casebook.Casebook) -> set[int]:
    """The ranks of which a tool says that they are slower than the others."""
    told: set[int] = set()
    for entry in book.with_field("straggler"):
        listed = regexes.ready(_LISTED).search(entry.signal.text)
        told |= {int(number) for number in regexes.ready(_NUMBER).findall(listed[0])} if listed else set()
        told.add(int(entry.signal.fields["straggler"]))
    return told


_LISTED = r"(?i)\branks['\"]?[ =:#]{0,3}[\[{(]{0,2}\d{1,6}(?:, ?\d{1,6}\b){1,63}"
_NUMBER = r"\d+"
