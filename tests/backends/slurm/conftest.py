import os
from collections.abc import Iterator

import pytest

from backends.slurm import cluster as clusters


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
