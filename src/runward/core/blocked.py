"""The process of a rank that the kernel saw wait for a device or mount: the others wait for it."""

from runward.core import casebook, missed

_HUNG = "kernel_hung_task"


def waits(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank whose process the kernel saw wait for a device or mount, where it names no other of the run."""
    seen = (e for e in book.of_rule(_HUNG) if not book.advances_after(e.order))
    tasks = {(e.signal.fields.get("task", ""), e.signal.fields.get("pid", "")): e for e in seen}
    known = {key: _rank(key[1], e.signal.node or "", book) for key, e in tasks.items() if key[1]}
    ranks = set(known.values()) - {None}
    names = {task for (task, _), rank in known.items() if rank is not None}
    strange = any(rank is None and task in names for (task, _), rank in known.items())
    if len(ranks) != 1 or strange:
        return None
    first = next(e for key, e in tasks.items() if known.get(key) is not None)
    why = "the kernel saw its process wait for a device or mount"
    return missed.Suspects(tuple(r for r in ranks if r is not None), why, proven=False, entries=(first,))


def _rank(pid: str, node: str, book: casebook.Casebook) -> int | None:
    """The rank of a process; of one that nobody told the only rank of its machine."""
    told = book.voices.process(pid, node)
    return book.voices.only(node) if told is None else told
