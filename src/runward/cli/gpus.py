"""`runward gpus`: use, health and forgotten holders of this machine's GPUs."""

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from runward.cli import printing

if TYPE_CHECKING:
    from runward.core import gpus as core
    from runward.wiring import gpus as wiring


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object (a line a second with --watch).")
@click.option("--watch", is_flag=True, help="Go on, once a second, until interrupted.")
@click.option("--pcie", is_flag=True, help="PCIe throughput too (the driver samples it for 40 ms a GPU).")
@click.option("--check", is_flag=True, help="PASS, WARN or FAIL of every GPU; exit 2 on FAIL.")
@click.option("--zombies", is_flag=True, help="Processes that hold a GPU but are not in the driver's list.")
@click.option("--reap", is_flag=True, help="With --zombies: end them (SIGTERM, then SIGKILL).")
def gpus(*, as_json: bool, watch: bool, pcie: bool, check: bool, zombies: bool, reap: bool) -> int:
    """Show the GPUs of this machine. A value that the driver does not give is shown as n/a."""
    from runward.core import errors
    from runward.wiring import gpus as wiring

    if reap and not zombies:
        raise errors.UsageError(
            errors.Problem("--reap ends zombies only", where="--reap", next_step="Use --zombies --reap.")
        )
    if sum((watch, check, zombies)) > 1:
        raise errors.UsageError("--watch, --check and --zombies exclude each other")
    found = wiring.open_here()
    try:
        if check:
            return _check(found, as_json=as_json)
        if zombies:
            return _zombies(found, as_json=as_json, reap=reap)
        return _show(found, as_json=as_json, watch=watch, pcie=pcie)
    except KeyboardInterrupt:
        return 130
    finally:
        found.close()


def _show(found: "wiring.Gpus", *, as_json: bool, watch: bool, pcie: bool) -> int:
    from runward.core import gpus as core

    code = 0
    while True:
        reading = found.look(pcie=pcie)
        if as_json:
            (printing.as_line if watch else printing.as_json)(_json(reading))
        elif isinstance(reading, core.GpusUnseen):
            printing.said(f"GPUs not seen: {reading.why}")
        else:
            if watch and sys.stdout.isatty():
                print("\x1b[H\x1b[J", end="")
            print("\n".join(_table(reading)), flush=True)
        code = 75 if isinstance(reading, core.GpusUnseen) else 0
        if not watch:
            return code
        time.sleep(1)


def _json(reading: "core.GpuReading | core.GpusUnseen") -> dict[str, Any]:
    from runward.core import gpus as core

    if isinstance(reading, core.GpusUnseen):
        return {"schema_version": 1, "at": reading.at, "seen": False, "why": reading.why, "gpus": []}
    return {
        "schema_version": 1,
        "at": reading.at,
        "seen": True,
        "source": reading.source,
        "driver": reading.driver or None,
        "gpus": [sample.to_json() for sample in reading.samples],
        "xids": [{"code": xid.code, "uuid": xid.uuid, "at": xid.at} for xid in reading.xids],
        "notes": list(reading.notes),
    }


_COLUMNS = (
    ("util_pct", "util", "%"),
    ("mem_util_pct", "mem-util", "%"),
    ("mem_used_mib", "used", " MiB"),
    ("mem_total_mib", "total", " MiB"),
    ("power_w", "power", " W"),
    ("temp_c", "temp", " C"),
    ("sm_clock_mhz", "clock", " MHz"),
)
_PCIE = (("pcie_tx_mb_s", "pcie tx", " MB/s"), ("pcie_rx_mb_s", "rx", " MB/s"))


def _table(reading: "core.GpuReading") -> list[str]:
    from runward.ui import text

    columns = _COLUMNS + (_PCIE if any(s.get("pcie_tx_mb_s") is not None for s in reading.samples) else ())
    head = ["GPU", "name", *(title for _, title, _ in columns), "processes", "throttle"]
    rows = []
    reasons: dict[str, None] = {}
    for sample in reading.samples:
        cells = [str(sample.index), sample.name]
        for name, _, unit in columns:
            number = sample.get(name)
            cells.append("n/a" if number is None else f"{number:.0f}{unit}")
            if number is None:
                reasons[f"{name}: {sample.why(name)}"] = None
        held = sample.processes
        cells.append("n/a" if held is None else ",".join(str(p.pid) for p in held) or "-")
        cells.append(",".join(t for t in sample.throttle if t != "gpu_idle") or "-")
        rows.append(cells)
    lines = [text.table(head, rows)]
    if reasons:
        lines.append("n/a: " + "; ".join(reasons))
    return lines + [f"note: {note}" for note in reading.notes]


def _check(found: "wiring.Gpus", *, as_json: bool) -> int:
    from runward.core import gpu_health
    from runward.wiring import gpus as wiring

    findings = wiring.check(found)
    worst = gpu_health.worst(findings)
    if as_json:
        checks = [f.to_json() for f in findings]
        printing.as_json({"schema_version": 1, "result": worst.name, "checks": checks})
    else:
        for finding in findings:
            print(f"{finding.level.name}  GPU {finding.gpu}  {finding.check}: {finding.text}")
        print(f"RESULT: {worst.name}")
    return 2 if worst is gpu_health.Level.FAIL else 0


def _zombies(found: "wiring.Gpus", *, as_json: bool, reap: bool) -> int:
    from runward.wiring import gpus as wiring

    zombies, why = wiring.find_zombies(found)
    rows = [
        {
            "pid": z.holder.pid,
            "gpus": list(z.holder.devices),
            "age_s": round(z.holder.age_s),
            "command": z.holder.command,
            "why": z.text,
            "outcome": wiring.reap(z) if reap else None,
        }
        for z in zombies
    ]
    if as_json:
        printing.as_json({"schema_version": 1, "zombies": rows, "not_observable": why or None})
        return 0
    for row in rows:
        print(f"pid {row['pid']}: {row['why']}: {row['command']}" + (f" -> {row['outcome']}" if reap else ""))
    if why:
        printing.said(f"zombies not (all) observable: {why}")
    elif not rows:
        print("no zombie holds a GPU")
    if rows and not reap:
        print("Nothing was ended; --reap ends them.", file=sys.stderr)
    return 0
