"""The examples in the docstrings hold, wherever there are some."""

import doctest
import importlib
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"
WITH_EXAMPLES = sorted(path for path in SOURCES.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(SOURCES).as_posix())
def test_examples_in_the_docstrings_hold(path):
    name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed
