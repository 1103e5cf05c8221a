"""Which GPU is whose: by its address on the bus, its number, its serial name, as the log binds them to ranks."""

from collections.abc import Mapping

from runward.core import layouts, prefixes, regexes, voices

_VISIBLE = r"(?i)visible_devices['\"]?[ =:]{1,3}['\"\[]{0,2}(?P<devices>\d[\d, ]{0,60})"
_SERIAL = r"(?i)\b(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f-]{20,40}"
_BUS = r"(?i)(?:0000)?(?:[0-9a-f]{4}:)?(?P<bus>[0-9a-f]{2}):(?P<dev>[0-9a-f]{2})"
_ADDRESS = r"(?i)\b(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d\b"
_DEVICE = (
    r"(?P<node>[A-Za-z][\w.-]{0,60}\d)[ ,:/(]{1,3}(?:gpu|GPU|cuda|device)[ :=#]{0,2}(?P<index>\d{1,2})\b"
)
_INDEX = r"(?:^|\bgpu ?\[?|\| +)(?P<index>\d{1,2})(?=[\],: ])"
_NO_GPU = r"(?i)\b(?:mlx|nic|net|eth|ib|nvme|hca|hfi)"


class Devices:
    """The GPUs of which the lines of one attempt tell."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], tuple[set[int], set[int]]] = {}
        """Nodes and names of GPUs, to the ranks and the local numbers that were told of them."""
        self._own: dict[int, set[tuple[str, str]]] = {}
        """Nodes and names of the GPUs that a rank told of."""
        self.told = 0
        """How often something new was told."""

    def add(self, node: str, name: str, rank: int | None, local: int | None) -> None:
        """A GPU is that of a rank, or of a local one."""
        ranks, numbers = self._told.setdefault((node, name), (set(), set()))
        self.told += not ((rank is None or rank in ranks) and (local is None or local in numbers))
        ranks |= set() if rank is None else {rank}
        numbers |= set() if local is None else {local}

    def beside(self, node: str, rank: int | None, local: int | None, text: str) -> tuple[str, int] | None:
        """A line that tells a rank, or a local one: its GPU by address, or as the one that its process sees.

        Gives node and number, where both stand beside the rank: `rank 3 -> n1 gpu 3 (0000:1b:00.0)`.
        """
        placed = regexes.ready(_DEVICE).search(text) if rank is not None else None
        if placed is not None:
            node, local = voices.short(placed["node"]), int(placed["index"])
        seen = regexes.ready(_VISIBLE).search(text)
        visible = [int(number) for number in seen["devices"].replace(",", " ").split()] if seen else []
        names = set(addresses(text)) if not regexes.ready(_NO_GPU).search(text) else set()
        names |= set(serials(text))
        names |= {f"gpu {number}" for number in visible if len(visible) == 1}
        if rank is not None and placed is None:
            own = self._own.setdefault(rank, set())
            before = len(own)
            own.update((node, name) for name in names)
            self.told += len(own) - before
        elif len(names) == 1:
            self.add(node, names.pop(), rank, local)
        for place, number in enumerate(visible if len(visible) > 1 else ()):
            self.add(node, f"gpu {number}", None, place)
        return (node, local) if placed is not None and local is not None else None

    def tabled(self, node: str, rank: int, row: Mapping[str, str]) -> None:
        """The GPU in a row of a table: by its number, its address or its serial name."""
        number, bus = row.get("gpu", ""), row.get("bus", "")
        names = {f"gpu {number}" if number.isdecimal() else "", bus_of(bus), *serials(bus)}
        for name in names - {""}:
            self.add(node, name, rank, None)

    def listed(self, text: str) -> None:
        """A line of `nvidia-smi`, lower case, that tells the number of a GPU."""
        front = prefixes.split(text)
        found = regexes.ready(_INDEX).search(front.body)
        index = int(found["index"]) if found else front.voice.number
        if index is not None and index < layouts.MOST_LOCAL and "xid" not in text:
            for name in {bus_of(text), *serials(text)} - {""}:
                self.add(voices.short(front.node), name, None, index)

    def owners(self) -> dict[tuple[str, str], tuple[int | None, int | None]]:
        """Node and name of each GPU to rank and local rank; none of either where two are told."""
        for rank, places in self._own.items():
            if len(places) == 1:
                self.add(*min(places), rank, None)
        return {
            place: (min(ranks) if len(ranks) == 1 else None, min(local) if len(local) == 1 else None)
            for place, (ranks, local) in self._told.items()
        }


def serials(text: str) -> list[str]:
    """Serial names of GPUs that a text holds, lower case."""
    return [found[0].lower() for found in regexes.ready(_SERIAL).finditer(text)]


def bus_of(text: str) -> str:
    """Bus and device of a PCI address, lower case: `1b:00` of `PCI:0000:1B:00.0`; empty for anything else."""
    found = regexes.ready(_BUS).search(text)
    return f"{found['bus']}:{found['dev']}".lower() if found else ""


def addresses(text: str) -> list[str]:
    """Bus addresses that a text holds."""
    return [bus_of(found[0]) for found in regexes.ready(_ADDRESS).finditer(text)]
