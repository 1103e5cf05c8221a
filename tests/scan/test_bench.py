import json
import os

import pytest
from click.testing import CliRunner

from runward.cli import bench as verb
from runward.core import errors
from runward.scan import samplelogs
from runward.wiring import bench_scan

pytestmark = pytest.mark.xdist_group("scan_bench")  # its logs are made and measured once

RATIOS = {
    "ripgrep_nccl",
    "ripgrep_onepct",
    "ripgrep_healthy",
    "ripgrep_hostile",
    "loop_nccl",
    "loop_onepct",
    "loop_healthy",
    "pread_idle",
}


@pytest.fixture(scope="module")
def answer():
    try:
        return bench_scan.run(bench_scan.Plan(mb=1, repeats=1, files=200))
    except errors.UsageError:
        if os.environ.get("CI"):
            raise
        pytest.skip("ripgrep is not here")


def test_the_bench_answers_with_the_ratios_of_its_contract(answer):
    assert answer["schema_version"] == 1
    assert answer["engine"] in ("pyperscan", "ahocorasick", "stdlib")
    assert set(answer["ratios"]) == set(answer["limits"]) == RATIOS
    assert all(ratio > 0 for ratio in answer["ratios"].values())
    assert json.loads(json.dumps(answer)) == answer


def test_the_logs_that_are_measured_hold_what_they_are_named_for(answer):
    assert answer["patterns"] == 200
    assert answer["hits"]["healthy"] > 100
    assert 0 < answer["hits"]["nccl"] < answer["hits"]["onepct"] < 1000
    assert answer["hits"]["hostile"] >= 3


def test_the_table_has_a_row_for_each_ratio_and_marks_what_was_missed(answer):
    text = bench_scan.table({**answer, "missed": ["pread_idle"]})
    assert text.count("\n") == len(RATIOS) + 1
    assert [line[:4] for line in text.splitlines() if "idle files" in line] == ["MISS"]


def test_the_same_seed_gives_the_same_log():
    import random

    one, two = (b"".join(samplelogs.hostile(random.Random(4), 300_000)) for _ in range(2))
    assert one == two
    assert all(line in one for line in samplelogs.PLANTED)


def test_bench_lists_its_parts():
    done = CliRunner().invoke(verb.bench, ["--help"])
    assert done.exit_code == 0
    assert "scan" in done.output
