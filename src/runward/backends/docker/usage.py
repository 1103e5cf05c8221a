"""What the running containers use now: one list, and the counters of each, none waiting for another."""

import concurrent.futures
import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from runward.backends.docker import client
from runward.core import box

Counters = Callable[[str], box.Counted]
"""What a container uses, by its id, where the machine itself can tell."""


def read(
    engine: client.Engine, counters: Counters | None = None, at_once: int = 64
) -> tuple[box.ContainerUse, ...]:
    """The running containers with their use. Raises ContactLost, EngineError.

    The engine answers about one container only with its next sample, up to a second later: on this machine
    `counters` are read instead, and a far engine is asked about `at_once` of them at the same time, each on a
    connection of its own.
    """
    listed = [
        raw for raw in engine.json(client.Request("GET", "/containers/json")) or () if isinstance(raw, dict)
    ]
    if counters is not None:
        return tuple(_counted(raw, counters) for raw in listed)
    with concurrent.futures.ThreadPoolExecutor(max_workers=at_once) as pool:
        stats = list(pool.map(lambda raw: _stats(engine, str(raw["Id"])), listed))
    return tuple(_use(raw, one) for raw, one in zip(listed, stats, strict=True))


def _counted(raw: Mapping[str, Any], counters: Counters) -> box.ContainerUse:
    return dataclasses.replace(_use(raw, {}), **dataclasses.asdict(counters(str(raw["Id"]))))


def _stats(engine: client.Engine, container: str) -> Mapping[str, Any]:
    query = {"stream": False, "one-shot": True}
    asked = client.Request("GET", f"/containers/{container}/stats", query, deadline_s=10.0)
    try:
        with engine.stream(asked) as response:
            found = json.loads(response.read(1 << 20))
    except (client.EngineError, ValueError):
        return {}  # it ended meanwhile
    return found if isinstance(found, dict) else {}


def _use(raw: Mapping[str, Any], stats: Mapping[str, Any]) -> box.ContainerUse:
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
        cpu_ns=((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage"),
    )


def _network(networks: Mapping[str, Any] | None, what: str) -> int | None:
    return None if networks is None else sum(int(one.get(what, 0)) for one in networks.values())


def _sum(rows: Any, what: str) -> int | None:
    if rows is None:
        return None
    return sum(int(row.get("value", 0)) for row in rows if str(row.get("op", "")).lower() == what)
