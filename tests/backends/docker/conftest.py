import os
from collections.abc import Iterator

import pytest

from backends.docker import engine as engines


@pytest.fixture(scope="session")
def shared_engine() -> Iterator[engines.RealEngine]:
    reason = engines.why_not()
    if reason:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    started = engines.RealEngine()
    try:
        started.start()
        started.import_image()
        yield started
    finally:
        started.destroy()


@pytest.fixture
def engine(shared_engine: engines.RealEngine) -> Iterator[engines.RealEngine]:
    yield shared_engine
    shared_engine.clean()
