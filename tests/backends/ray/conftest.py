"""One real Ray for all tests here."""

from collections.abc import Iterator

import pytest

import rayhead


@pytest.fixture(scope="session")
def real_ray() -> Iterator[rayhead.RealRay]:
    yield from rayhead.or_skip()
