"""Jobs that other clusters have: one that is named, and one of a federation."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import waiting
from backends.slurm import cluster as clusters
from backends.slurm import worlds

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.e2e,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("slurm"),
]

Federation = tuple[clusters.Cluster, clusters.Cluster]


@pytest.fixture
def east(federation: Federation, tmp_path: Path) -> Iterator[worlds.World]:
    """What a user of that cluster's login node has."""
    made = worlds.World(federation[0], tmp_path)
    yield made
    made.close()
    for one in federation:
        one.run("scancel", "-u", "root", check=False)


_AGAIN = """\
if [ -e {mark} ]; then echo "step 2/5 loss: 0.4"; {then}; fi
touch {mark}
echo "step 1/5 loss: 0.5"
echo "RuntimeError: NCCL error in: somewhere"; exit 1
"""


def test_a_job_of_another_cluster_is_seen_submitted_again_and_ended_there(
    east: worlds.World, cluster: clusters.Cluster
) -> None:
    script = east.script(_AGAIN.format(mark=east.folder / "mark", then="sleep 300"))
    process = east.submit("--place-arg=--clusters=runward", "--policy", "aggressive", str(script))
    second = east.job_of(2)
    first = east.attempts()[0]
    assert first["verdict"]["cause"] == "nccl_error", east.words()
    assert first["job"].endswith("@runward")
    assert second.endswith("@runward")
    job_id = second.partition("@")[0]
    cluster.wait_state(job_id, "RUNNING")
    attached = east.start("attach", f"slurm:{second}", "--name", "looked")
    assert east.runward("stop", "demo", "--now").returncode == 0
    east.ended(process)
    east.ended(attached)
    assert cluster.wait_state(job_id, "CANCELLED") == "CANCELLED"
    (looked,) = east.attempts("looked")
    assert (looked["job"], looked["verdict"]["cause"]) == (second, "cancelled")
    told = json.loads(east.runward("diagnose", f"slurm:{first['job']}", "--json").stdout)
    assert told["verdict"]["cause"] == "nccl_error"


def test_a_job_that_another_cluster_of_the_federation_took_is_followed_and_ended_there(
    east: worlds.World, federation: Federation
) -> None:
    holding = east.script("sleep 300", "holding.sh")
    east.cluster.run("sbatch", "--clusters=east", "--exclusive", str(holding))
    waiting.wait_until(lambda: east.cluster.node_states() == ["alloc"], "east is full")
    script = east.script(_AGAIN.format(mark=east.folder / "mark", then="sleep 300"))
    process = east.submit("--place-arg=--exclusive", "--policy", "aggressive", str(script))
    second = east.job_of(2)
    assert east.cause() == "nccl_error", east.words()
    west = federation[1]
    west.wait_state(second, "RUNNING")
    assert east.runward("stop", "demo", "--now").returncode == 0
    east.ended(process)
    assert west.wait_state(second, "CANCELLED") == "CANCELLED"
