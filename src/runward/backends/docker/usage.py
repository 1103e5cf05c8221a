"""What the running containers use now: one list, and the counters of each, none waiting for another."""

import concurrent.futures
import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from runward.backends.docker import client, inspected
from runward.core import box

Counters = Callable[[str], box.Counted]
"""What a container uses, by its id, where the machine itself can tell."""
LIMIT = 1 << 20
"""Of one sample, in bytes."""


def read(
    engine: client.Engine, counters: Counters | None = None, at_once: int = 64
) -> tuple[box.ContainerUse, ...]:
    """The running containers with their use. Raises ContactLost, EngineError.

    The engine answers about one container only with its next sample, up to a second later: on this machine
    `counters` are read instead, and a far engine is asked about `at_once` of them at the same time, each on a
    connection of its own. Who looks again and again has a `feed.Feed`.
    """
    listed = running(engine)
    if counters is not None:
        return tuple(_counted(raw, counters) for raw in listed)
    with concurrent.futures.ThreadPoolExecutor(max_workers=at_once) as pool:
        samples = list(pool.map(lambda raw: _asked(engine, str(raw["Id"])), listed))
    return tuple(of(raw, one) for raw, one in zip(listed, samples, strict=True))


def running(engine: client.Engine) -> list[Mapping[str, Any]]:
    """The engine's list of the running containers. Raises ContactLost, EngineError."""
    found = engine.json(client.Request("GET", "/containers/json")) or ()
    return [raw for raw in found if isinstance(raw, dict)]


def request(container: str) -> client.Request:
    """The question for one sample."""
    query = {"stream": False, "one-shot": True}
    return client.Request("GET", f"/containers/{container}/stats", query, deadline_s=10.0)


def sample(line: bytes) -> Mapping[str, Any]:
    """A sample as the engine sent it; empty when it is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def cpu_between(before: Mapping[str, Any], now: Mapping[str, Any]) -> float | None:
    """Percent of one core between two samples, by their own times."""
    begun, ended = inspected.instant(before.get("read")), inspected.instant(now.get("read"))
    used_before, used_now = _cpu_ns(before), _cpu_ns(now)
    if begun is None or ended is None or used_before is None or used_now is None or ended <= begun:
        return None
    return max(0.0, (used_now - used_before) / (ended - begun) / 1e7)


def _counted(raw: Mapping[str, Any], counters: Counters) -> box.ContainerUse:
    return dataclasses.replace(of(raw, {}), **dataclasses.asdict(counters(str(raw["Id"]))))


def _asked(engine: client.Engine, container: str) -> Mapping[str, Any]:
    try:
        with engine.stream(request(container)) as response:
            return sample(response.read(LIMIT))
    except client.EngineError:
        return {}  # it ended meanwhile


def _cpu_ns(stats: Mapping[str, Any]) -> int | None:
    found = ((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage")
    return found if isinstance(found, int) else None


def of(raw: Mapping[str, Any], stats: Mapping[str, Any], cpu: float | None = None) -> box.ContainerUse:
    """A container of the list with its sample, and its CPU where that is known already."""
    memory = stats.get("memory_stats") or {}
    details = memory.get("stats") or {}
    # Page cache that the kernel can take back at once is no use: the engine's own tools subtract it too.
    cache = details.get("total_inactive_file", details.get("inactive_file", 0))
    used = memory.get("usage")
    networks = stats.get("networks")
    blocks = (stats.get("blkio_stats") or {}).get("io_service_bytes_recursive")
    return box.ContainerUse(
        id=str(raw["Id"]),
        name=str((raw.get("Names") or ["?"])[0]).lstrip("/"),
        image=str(raw.get("Image") or ""),
        status=str(raw.get("Status") or ""),
        memory=None if used is None else max(0, used - cache),
        memory_limit=memory.get("limit"),
        net_in=_network(networks, "rx_bytes"),
        net_out=_network(networks, "tx_bytes"),
        disk_read=_sum(blocks, "read"),
        disk_written=_sum(blocks, "write"),
        cpu=cpu,
        cpu_ns=_cpu_ns(stats),
    )


def _network(networks: Mapping[str, Any] | None, what: str) -> int | None:
    return None if networks is None else sum(int(one.get(what, 0)) for one in networks.values())


def _sum(rows: Any, what: str) -> int | None:
    if rows is None:
        return None
    return sum(int(row.get("value", 0)) for row in rows if str(row.get("op", "")).lower() == what)
