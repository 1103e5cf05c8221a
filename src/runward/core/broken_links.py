"""Who went away, by those that lost a connection: they name its rank, or the address at its other end."""

from collections.abc import Iterator

from runward.core import addresses, casebook, missed, regexes, voices

_ON_THEIR_WAY = 4
"""Steps that other ranks may still print after one is lost."""
_AT_ADDRESS = ("gloo_peer_closed", "nccl_ib_completion", "nccl_peer_closed", "nccl_refused", "ucx_transport")
_PEER = (
    r"gloo/transport/.{0,120}?\[(?P<gloo>[\w.:%-]{2,80})\]:\d"
    r"|\b(?:peer|recv from|send to|[Cc]onnect(?:ing)? to) (?P<nccl>[\w.:%-]{2,80}|\[[\w.:%]{2,60}\])<\d"
    r"|\bdgid=(?:::ffff:)?(?P<ucx>[0-9a-f.:]{7,60})(?=[ \]])"
)
"""The other end of a connection, as gloo and NCCL print it."""
_OWN_WAY = r"(?i)no route to host|unreachable|cannot assign"
"""What may as well be wrong at the own end."""


def lost(book: casebook.Casebook) -> missed.Suspects | None:
    """Whom others say they lost, less those that say so themselves: they went because of the first."""
    whom = [(entry, int(entry.signal.fields["lost"])) for entry in book.with_field("lost")]
    whom += list(_at_addresses(book))
    whom = [(entry, rank) for entry, rank in whom if rank != entry.signal.rank and not _survived(entry, book)]
    lost = {rank for _, rank in whom}
    gone = (lost - {entry.signal.rank for entry, _ in whom}) or lost
    first = [entry for entry, rank in whom if rank in gone][:1]
    return (
        missed.Suspects(
            tuple(sorted(gone)), "others say that they lost it", proven=False, entries=tuple(first)
        )
        if gone
        else None
    )


def _at_addresses(book: casebook.Casebook) -> Iterator[tuple[casebook.Entry, int]]:
    """Lines that give the address of a peer, where each machine has one rank."""
    entries = book.of_rule(*_AT_ADDRESS)
    known = addresses.owners(book) if entries else {}
    for entry in entries:
        text = entry.signal.text
        found = None if regexes.ready(_OWN_WAY).search(text) else regexes.ready(_PEER).search(text)
        if found is None:
            continue
        name = (found["gloo"] or found["nccl"] or found["ucx"]).strip("[]")
        rank = known.get(name, book.voices.only(voices.short(name)))
        if rank is not None:
            yield entry, rank


def _survived(entry: casebook.Entry, book: casebook.Casebook) -> bool:
    """Whether more steps came after a line than may still have been on their way."""
    return len({one.step for one in book.advances if one.order > entry.order}) > _ON_THEIR_WAY
