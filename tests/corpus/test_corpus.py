"""The generated corpus: cascades, near-miss pairs and clean logs, of seeds that nobody looked at while tuning."""

import pytest

from corpus import generate
from runward.wiring import bench_diagnose


@pytest.mark.parametrize("seed", [11, 4711])
def test_the_first_cause_and_its_rank_are_found_and_clean_logs_are_left_alone(seed):
    cases = generate.corpus(seed)
    figures = bench_diagnose.score(cases, list(bench_diagnose.predictions(cases, ".")))
    assert figures["false_alarm"] == figures["false_restart"] == figures["false_stop"] == 0, figures["wrong"]
    assert figures["both"] >= 0.98 * figures["cases"], figures["wrong"]
    assert figures["rank"] >= 0.97 * figures["ranked"], figures["wrong"]
    assert figures["evidence"] >= 0.97 * figures["with_evidence"]
