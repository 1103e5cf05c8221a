"""What was recorded on real GPUs, judged again without one: every tick must get the verdict it got then."""

import json
from pathlib import Path

import pytest

from runward.core import gpu_signature, gpus, hang, stacks

FOLDER = Path(__file__).parent / "gpu"
RECORDED = sorted(path.parent for path in FOLDER.glob("*/telemetry.jsonl"))
ENDED_NEVER = ("healthy", "loader_bound", "rank_0_saves", "rank_0_evaluates")


def replay(folder):
    """(recorded kind, replayed verdict) of every tick that saw the GPUs."""
    windows = {}
    for line in (folder / "telemetry.jsonl").read_text().splitlines():
        row = json.loads(line)
        if "gpus" not in row:
            continue
        for gpu in row["gpus"]:
            sample = gpus.GpuSample(
                gpu["index"], str(gpu["index"]), values=gpu["values"], absent=gpu["absent"]
            )
            windows.setdefault(gpu["index"], []).append(sample)
        ranks = [
            hang.Rank(
                one["rank"],
                "node-a",
                str(one["gpu"]),
                gpu_signature.look(windows[one["gpu"]][-15:]),
                stacks.StackVote(stacks.Sameness(one["stack"][0]), one["stack"][1]),
                one["moved_bytes"],
                one["cpu_cores"],
            )
            for one in row["ranks"]
        ]
        facts = hang.Facts(
            ranks,
            row["silent_s"],
            row["p99_step_s"],
            longest_phase_s=20.0,
            seen_evaluation=True,
            seen_checkpoint=True,
        )
        yield row["kind"], hang.judge(facts)


@pytest.mark.parametrize("folder", RECORDED, ids=[path.name for path in RECORDED])
def test_every_recorded_tick_gets_the_verdict_it_got_on_the_gpus(folder):
    ticks = list(replay(folder))
    assert ticks
    assert [str(verdict.kind) for _, verdict in ticks] == [kind for kind, _ in ticks]


@pytest.mark.parametrize("folder", RECORDED, ids=[path.name for path in RECORDED])
def test_no_healthy_run_is_ever_ended_and_every_hang_is_reported(folder):
    kinds = {verdict.kind for _, verdict in replay(folder)}
    if folder.name.startswith(ENDED_NEVER):
        assert not kinds & {hang.Kind.END, hang.Kind.HANG}
    if folder.name.startswith("hang_"):
        assert kinds & {hang.Kind.END, hang.Kind.HANG}
    if folder.name.startswith("hang_collective"):
        named = [
            verdict.suspects
            for _, verdict in replay(folder)
            if verdict.kind in {hang.Kind.END, hang.Kind.HANG}
        ]
        assert {rank.rank for suspects in named for rank in suspects} == {1}
