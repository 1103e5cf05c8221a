"""What the running containers use now: one list, and one answer each that does not wait for a second sample."""

from collections.abc import Mapping
from typing import Any

from runward.backends.docker import client
from runward.core import box


def read(engine: client.Engine) -> tuple[box.ContainerUse, ...]:
    """The running containers with their counters. Raises ContactLost, EngineError."""
    listed = engine.json(client.Request("GET", "/containers/json"))
    found = []
    for raw in listed or ():
        query = {"stream": False, "one-shot": True}
        asked = client.Request("GET", f"/containers/{raw['Id']}/stats", query, deadline_s=5.0)
        try:
            stats = engine.json(asked)
        except client.EngineError:
            stats = {}  # it ended meanwhile
        found.append(_use(raw, stats if isinstance(stats, dict) else {}))
    return tuple(found)


def _use(raw: Mapping[str, Any], stats: Mapping[str, Any]) -> box.ContainerUse:
    memory = stats.get("memory_stats") or {}
    details = memory.get("stats") or {}
    # Page cache that the kernel can take back at once is no use: the engine's own tools subtract it too.
    cache = details.get("total_inactive_file", details.get("inactive_file", 0))
    used = memory.get("usage")
    networks = (stats.get("networks") or {}).values()
    blocks = (stats.get("blkio_stats") or {}).get("io_service_bytes_recursive") or ()
    return box.ContainerUse(
        id=str(raw["Id"]),
        name=str((raw.get("Names") or ["?"])[0]).lstrip("/"),
        image=str(raw.get("Image") or ""),
        status=str(raw.get("Status") or ""),
        memory=None if used is None else max(0, used - cache),
        memory_limit=memory.get("limit"),
        net_in=sum(network.get("rx_bytes", 0) for network in networks),
        net_out=sum(network.get("tx_bytes", 0) for network in networks),
        disk_read=_sum(blocks, "read"),
        disk_written=_sum(blocks, "write"),
        cpu_ns=((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage"),
    )


def _sum(rows: Any, what: str) -> int:
    return sum(int(row.get("value", 0)) for row in rows if str(row.get("op", "")).lower() == what)
