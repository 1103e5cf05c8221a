"""Whether the numbers in the names of logs are ranks: what the processes say in them decides.

`gpu3.log` may be the log of rank 3, of a machine's fourth GPU, or of the machine that is called so.
"""

from dataclasses import dataclass, field

from runward.core import log_names, signals

_MOST_FILES, _MOST_RANKS = 4096, 16


@dataclass(slots=True, repr=False)
class FileRanks:
    """The rank of each log by its name, and the ranks that its processes give as their own."""

    called: dict[str | None, int] = field(default_factory=dict)
    _spoken: dict[str | None, set[int]] = field(default_factory=dict)
    _members: dict[int, dict[str | None, set[int]]] = field(default_factory=dict)
    """By the size of a communicator: the ranks in it."""

    def name(self, source: signals.Source) -> None:
        """A log is read."""
        if source.rank is not None and len(self.called) < _MOST_FILES:
            self.called[source.file] = source.rank

    def hear(self, signal: signals.Signal) -> None:
        """Take what one line says."""
        if signal.file_rank is not None and len(self.called) < _MOST_FILES:
            self.called[signal.file] = signal.file_rank
        if signal.voice.rank is not None:
            _add(self._spoken, signal.file, signal.voice.rank)
        elif signal.rank is not None and "bus" in signal.fields and "world" in signal.fields:
            _add(self._members.setdefault(int(signal.fields["world"]), {}), signal.file, signal.rank)

    def misnamed(self) -> frozenset[str | None]:
        """The logs of which the number is no rank: all, where some are proven wrong and none but that of 0 is right."""
        said = {file: self.said(file) for file in self.called}
        wrong = frozenset(
            file
            for file, rank in self.called.items()
            if (said[file] and rank not in said[file]) or len(self._members_of(file)) > 1
        )
        right = any(rank and said[file] == {rank} for file, rank in self.called.items())
        counted = {file: rank for file, rank in self.called.items() if _only_counts(file)}
        if 0 not in counted.values() and not right:
            wrong |= counted.keys()  # ranks count from 0: these are machines, or tasks that count from 1
        return wrong if right or not wrong else frozenset(self.called)

    def said(self, file: str | None) -> set[int]:
        """The ranks that the processes of a log give as their own."""
        return self._spoken.get(file, set()) | self._members_of(file)

    def _members_of(self, file: str | None) -> set[int]:
        """The members of the largest communicator that a log holds."""
        return self._members[max(self._members)].get(file, set()) if self._members else set()


def _only_counts(file: str | None) -> bool:
    return log_names.only_counts(signals.section(file) or file or "")


def _add(known: dict[str | None, set[int]], file: str | None, rank: int) -> None:
    if file in known or len(known) < _MOST_FILES:
        ranks = known.setdefault(file, set())
        if len(ranks) <= _MOST_RANKS:
            ranks.add(rank)
