"""One real Ray for all tests here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import rayhead
from backends.ray import cluster as clusters
from runward.backends.ray import backend, client


@pytest.fixture(scope="session")
def real_ray() -> Iterator[rayhead.RealRay]:
    yield from rayhead.or_skip()


@pytest.fixture
def cluster(real_ray: rayhead.RealRay) -> backend.Ray:
    return backend.Ray(client.open_dashboard(real_ray.url, {}))


@pytest.fixture
def runward(tmp_path: Path) -> Iterator[clusters.Runward]:
    one = clusters.Runward(tmp_path)
    yield one
    one.close()
