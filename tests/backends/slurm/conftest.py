import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import waiting
from backends.slurm import cluster as clusters
from backends.slurm import slow as slow_runs
from backends.slurm import worlds


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Cluster]:
    lacking = clusters.missing()
    if lacking:
        reason = f"no Slurm here: {', '.join(lacking)}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    started = clusters.Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        started.start()
        yield started
    finally:
        started.close()


@pytest.fixture(scope="session")
def federation(
    cluster: clusters.Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[clusters.Cluster, clusters.Cluster]]:
    """Two more clusters with one node each; the first cluster is not of their federation."""
    folder = tmp_path_factory.mktemp("slurms")
    both = tuple(clusters.Cluster(folder / one, 1, one, one[0]) for one in ("east", "west"))
    try:
        for one in both:
            one.start_beside(cluster)
        for one in both:
            one.ready()
        cluster.run("sacctmgr", "-i", "add", "federation", "both", "clusters=east,west")
        joined = ("Synced:Yes", "Self:       east")
        waiting.wait_until(
            lambda: all(word in both[0].run("scontrol", "show", "federation") for word in joined),
            "joined",
            60,
        )
        yield both
    finally:
        for one in both:
            one.close()


@pytest.fixture
def world(
    cluster: clusters.Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[worlds.World]:
    if any("slow" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("slow")  # they are waited for at the end: they had better begin now
    made = worlds.World(cluster, tmp_path)
    yield made
    made.close()
    for one in cluster.live():
        cluster.run("scancel", one, check=False)
    waiting.wait_until(lambda: not cluster.live(), "an empty queue", 150)


@pytest.fixture(scope="session")
def slow(cluster: clusters.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[slow_runs.Slow]:
    """Runs whose ends take a minute; all of them go on while other tests run."""
    started = slow_runs.Slow(worlds.World(cluster, tmp_path_factory.mktemp("slow")))
    yield started
    started.world.close()
