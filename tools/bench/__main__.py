"""Measures what watching costs and how fast a death is answered; prints a table and leaves bench.json.

usage: python tools/bench [--seconds 180] [--json bench.json] [--only start,death,idle,...]
A missed limit is marked in the table and fails nothing: a shared box has its days. CPU time is the steadier figure.
`logs`, `pods` and `docker` are measured only when they are named: they take minutes, `docker` wants root and dockerd.
"""

import argparse
import contextlib
import json
import os
import pathlib
import sys
from types import ModuleType

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:1] = [str(ROOT / folder) for folder in ("tools", "src", "tests")]  # in place of this folder

from bench import (  # noqa: E402
    death,
    diagnosis,
    docker_engine,
    far_boxes,
    growing,
    hour,
    place,
    pods,
    ray_jobs,
    slurm_jobs,
    start_up,
    step_time,
    watching,
)

SUBJECTS: dict[str, ModuleType] = {
    "start": start_up,
    "death": death,
    "idle": watching,
    "flat": hour,
    "slurm": slurm_jobs,
    "ray": ray_jobs,
    "growing": growing,
    "logs": diagnosis,
    "steps": step_time,
    "far": far_boxes,
    "pods": pods,
    "docker": docker_engine,
}
ALWAYS = "start,death,idle,flat,growing,steps,far,slurm,ray"


def measure(name: str, share: float) -> dict:
    """One subject; `share`: how much of the usual time it may take."""
    match name:
        case "start":
            return start_up.start_up(max(5, int(10 * share)))
        case "death":
            return death.deaths(25 * share)
        case "idle":
            return {str(rate): watching.price(rate, 20 * share) for rate in (1, 1000)}
        case "flat":
            return hour.flat(3_600_000 if share >= 1 else 360_000)
        case "slurm":
            return slurm_jobs.slurm(10_000)
        case "ray":
            return ray_jobs.measure(500 if share >= 1 else 200, 20 * share)
        case "growing":
            return growing.growing(max(5, int(20 * share)))
        case "logs":
            return diagnosis.measure(max(5, int(10 * share)))
        case "steps":
            return step_time.step_time(60 * share)
        case "far":
            return far_boxes.far_boxes(max(3, int(10 * share)))
        case "pods":
            return pods.pods(2000 if share >= 1 else 400, seconds=60 * share)
        case _:
            return docker_engine.measure(500 if share >= 1 else 50)


def table(found: dict) -> list[place.Row]:
    """(what, figure, limit or None, unit) of everything that was measured."""
    return [row for name, subject in SUBJECTS.items() if name in found for row in subject.rows(found[name])]


def main() -> int:
    parser = argparse.ArgumentParser(description="What watching costs, and how fast a death is answered.")
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--json", default="bench.json")
    parser.add_argument("--only", default=ALWAYS, help=f"of {', '.join(SUBJECTS)}")
    args = parser.parse_args()
    names = args.only.split(",")
    if unknown := [name for name in names if name not in SUBJECTS]:
        parser.error(f"no subject {unknown[0]!r}; there are {', '.join(SUBJECTS)}")
    found: dict = {"schema_version": 1, "load_before": os.getloadavg()}
    for name in names:
        found[name] = measure(name, args.seconds / 180.0)
    found["load_after"] = os.getloadavg()
    pathlib.Path(args.json).write_text(json.dumps(found, indent=1))
    with contextlib.suppress(BrokenPipeError):
        for what, figure, limit, unit in table(found):
            bound = "" if limit is None else f"limit {limit:g}" + ("" if figure <= limit else "   over")
            print(f"{what:<52} {figure:>9.3f} {unit:<3} {bound}")
        load = f"load average {found['load_before'][0]:.1f} before, {found['load_after'][0]:.1f} after"
        print(f"{load}; all figures in {args.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
