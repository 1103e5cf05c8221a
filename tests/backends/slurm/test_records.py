"""Texts of a Slurm 22.05 and a 24.11, taken from real clusters with the same jobs, and sacct's by its manual."""

from pathlib import Path

import pytest

from runward.backends.slurm import again, paths, records, words
from runward.core import job, prefixes

DATA = Path(__file__).parent / "data"
VERSIONS = ("22.05", "24.11")


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> Path:
    return DATA / str(request.param)


def by_name(found: dict[str, records.Record], name: str) -> records.Record:
    return next(record for record in found.values() if record.name == name)


def test_squeue_of_both_versions_gives_the_same_states_and_exits(version: Path) -> None:
    found = records.parse_squeue((version / "squeue.txt").read_text())
    seen = {record.name: (record.word, record.exit) for record in found.values()}
    assert seen["we|ird name"] == ("FAILED", job.ExitStatus(3))
    assert seen["cancelled"] == ("CANCELLED", job.ExitStatus(None, 15))
    assert seen["killed"] == ("FAILED", job.ExitStatus(None, 9))
    assert seen["limit"] == ("TIMEOUT", job.ExitStatus(None, 15))
    assert seen["good"] == ("COMPLETED", job.ExitStatus(0))
    assert seen["held"][0] == "PENDING"
    assert by_name(found, "held").reason == "JobHeldUser"
    assert by_name(found, "we|ird name").comment == "demo-1-abc x=1"
    assert by_name(found, "again").restarts == 1
    assert {key for key in found if "_" in key} == {"5_3", "5_4", "5_5"}
    assert {key for key in found if "+" in key} == {"9+0", "9+1"}


def test_of_a_federated_job_the_line_of_the_cluster_that_took_it_counts() -> None:
    text = (DATA / "22.05" / "federation.txt").read_text()
    lines = text.splitlines()
    for order in (lines, lines[::-1], lines[1::2] + lines[::2]):
        found = records.parse_squeue("\n".join(order))
        assert {key: (one.word, one.nodes) for key, one in found.items()} == {
            "67108888": ("FAILED", "m1"),
            "67108889": ("COMPLETED", "m1"),
        }


def test_scontrol_agrees_with_squeue_about_every_job(version: Path) -> None:
    queue = records.parse_squeue((version / "squeue.txt").read_text())
    shown = records.parse_scontrol((version / "scontrol.txt").read_text())
    assert set(shown) == set(queue)
    for key, one in shown.items():
        other = queue[key]
        assert (one.word, one.exit, one.restarts, one.nodes) == (
            other.word,
            other.exit,
            other.restarts,
            other.nodes,
        )


def test_log_names_that_squeue_leaves_open_resolve_to_those_of_scontrol(version: Path) -> None:
    queue = records.parse_squeue((version / "squeue.txt").read_text())
    shown = records.parse_scontrol((version / "scontrol.txt").read_text())
    for key, record in queue.items():
        resolved = {paths.resolve(path, record) for path in record.outputs}
        assert resolved == set(shown[key].outputs), key


def test_a_line_that_is_cut_short_is_no_job(version: Path) -> None:
    text = (version / "squeue.txt").read_text()
    whole = records.parse_squeue(text)
    for cut in range(0, len(text), 97):
        assert set(records.parse_squeue(text[:cut])) <= set(whole)


def test_sacct_names_who_cancelled_and_the_last_line_of_a_requeued_job_counts() -> None:
    lines = [
        "40|PREEMPTED|0:0|0:0|2026-11-28T01:00:00|2026-11-28T02:00:00|n1|ann|60|train",
        "40|CANCELLED by 1001|0:15|0:0|2026-11-28T02:10:00|2026-11-28T03:00:00|n[1-2]|ann|60|train|again",
        "40.batch|FAILED|1:0||2026-11-28T02:10:00|2026-11-28T03:00:00|n1|||batch",
        "41_2|OUT_OF_MEMORY|0:125|0:0|2026-11-28T02:10:00|2026-11-28T03:00:00|n1|ann|60|x",
        "42|NODE_FAIL+|1:0|0:0|Unknown|Unknown|None assigned|ann|60|y",
    ]
    found = records.parse_sacct("\n".join(lines))
    assert set(found) == {"40", "41_2", "42"}
    assert (found["40"].word, found["40"].cancelled_by, found["40"].name) == (
        "CANCELLED",
        "1001",
        "train|again",
    )
    assert found["41_2"].word == "OUT_OF_MEMORY"
    assert found["42"].word == "NODE_FAIL"
    assert found["42"].nodes == ""


def test_a_word_of_a_later_version_ends_no_job() -> None:
    assert not words.state_of("SOMETHING_NEW").final


@pytest.mark.parametrize(
    ("word", "final"),
    [
        *((word, True) for word in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED")),
        *((word, True) for word in ("NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY")),
        ("REVOKED", False),
        *((word, False) for word in ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING")),
        *((word, False) for word in ("REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "STAGE_OUT", "RESIZING")),
    ],
)
def test_every_word_is_an_end_or_none(word: str, final: bool) -> None:
    assert words.state_of(word).final is final


def test_a_code_0_beside_a_time_limit_is_not_the_programs() -> None:
    assert not words.exit_of("TIMEOUT", job.ExitStatus(0)).seen
    assert words.exit_of("COMPLETED", job.ExitStatus(0)) == job.ExitStatus(0)


def test_a_heterogeneous_job_lives_while_a_part_lives() -> None:
    left, right = records.Record("9+0", "FAILED"), records.Record("9+1", "RUNNING")
    final = ("FAILED", "COMPLETED")
    assert records.together([left, right], "9", final.__contains__).word == "RUNNING"
    done = records.Record("9+1", "COMPLETED")
    assert records.together([done, left], "9", final.__contains__).word == "FAILED"


def test_the_daemon_of_a_node_is_no_node_that_could_be_left_out() -> None:
    line = "slurmstepd-n1: error: *** JOB 53 ON n1 CANCELLED AT 2026-11-28T09:21:55 DUE TO NODE FAILURE ***"
    assert prefixes.split(line).node is None
    assert prefixes.split("gpu-a12: error: lost").node == "gpu-a12"


@pytest.mark.parametrize(
    ("shown", "options"),
    [
        ({"TresPerNode": "gres:gpu:8"}, ["--gres=gpu:8"]),
        ({"TresPerNode": "gres/gpu:a100:4,gres/shard:2"}, ["--gres=gpu:a100:4,shard:2"]),
        ({"TresPerNode": "gpu:2"}, ["--gres=gpu:2"]),
        ({"TresPerJob": "gres/gpu:4"}, ["--gpus=4"]),
        ({"TresPerJob": "gres:gpu:h100:4"}, ["--gpus=h100:4"]),
        ({"TresPerTask": "cpu=8,gres/gpu=1", "CPUs/Task": "8"}, ["--cpus-per-task=8", "--gpus-per-task=1"]),
        ({"TresPerTask": "cpu:24"}, []),
        (
            {"CpusPerTres": "gres:gpu:64", "MemPerTres": "gpu:262144"},
            ["--cpus-per-gpu=64", "--mem-per-gpu=262144"],
        ),
        ({"NtasksPerN:B:S:C": "8:0:*:*", "NumNodes": "2-2"}, ["--nodes=2-2", "--ntasks-per-node=8"]),
        ({"NtasksPerN:B:S:C": "0:0:*:*", "MinMemoryNode": "0", "TimeLimit": "UNLIMITED"}, []),
        ({"OverSubscribe": "NO", "MinMemoryNode": "80G"}, ["--mem=80G", "--exclusive"]),
        ({"OverSubscribe": "OK", "Requeue": "0", "ArrayTaskId": "3"}, ["--no-requeue", "--array=3-3"]),
    ],
)
def test_a_job_is_submitted_again_with_all_that_it_was_given(
    shown: dict[str, str], options: list[str]
) -> None:
    assert again.options(shown, records.Record("7", "RUNNING")) == options


def test_a_job_is_submitted_again_with_its_outputs_as_patterns(version: Path) -> None:
    queue = records.parse_squeue((version / "squeue.txt").read_text())
    shown = (version / "scontrol.txt").read_text().splitlines()[0]
    fields = records.scontrol_fields(shown)
    found = again.options(fields, queue[fields["JobId"]])
    assert [one for one in found if one.startswith("--output=")] == ["--output=/scratch/demo/l-%j.txt"]
    assert "--time=00:01:00" in found
