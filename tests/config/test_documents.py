"""Files from people and other machines: places are kept, bounds hold, mistakes have a line."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.config import (
    autoexp_shapes,
    documents,
    inventories,
    mode_shapes,
    policy_files,
    setting_files,
    shapes,
)
from runward.core import errors


def test_every_key_knows_its_line_and_column():
    value = documents.parse("a: 1\nb:\n  - x\n  - {c: 2.5}\n", "f.yaml")
    assert str(value.data["b"].mark) == "f.yaml:2"
    inner = value.data["b"].data[1].data["c"]
    assert (inner.data, inner.mark.line, inner.mark.column) == (2.5, 4, 6)
    assert value.plain == {"a": 1, "b": ["x", {"c": 2.5}]}


def test_numbers_in_scientific_notation_are_numbers():
    assert documents.parse("[1e-3, 1.5e+2, 0x10, '1e3']", "f").plain == [1e-3, 150.0, 16, "1e3"]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("a: 1\na: 2\n", "given twice (first in line 1)", 2),
        ("a: [1\n", "is no YAML", 2),
        ("a: !!python/object/apply:os.system [id]\n", "the tag", 1),
        ("a: !mine x\n", "the tag !mine", 1),
        ("? [a]\n: 1\n", "a key must be a plain word", 1),
        ("x: &x {a: 1}\ny:\n  <<: *x\n", "a key must be a plain word", 3),
        ("[" * 100 + "]" * 100, "nested deeper", 1),
        (BOMB, "too many values", None),
        ("a: &a [*a]\n", "", None),
        ("a: 1\n---\nb: 2\n", "is no YAML", 2),
        ("a: \x00\n", "is no YAML", None),
    ],
)
def test_what_cannot_be_trusted_is_refused_with_its_place(text, what, line):
    with pytest.raises(errors.UsageError) as caught:
        documents.parse(text, "f.yaml")
    shown = str(caught.value)
    assert what in shown
    if line:
        assert shown.startswith(f"f.yaml:{line}:")


def test_a_file_that_is_too_large_or_missing_is_refused(tmp_path):
    large = tmp_path / "large.yaml"
    large.write_bytes(b"a: " + b"x" * documents.MAX_BYTES)
    with pytest.raises(errors.UsageError, match="larger than 1 MiB"):
        documents.load(str(large))
    with pytest.raises(errors.UsageError, match=r"none\.yaml: cannot be read: No such file"):
        documents.load(str(tmp_path / "none.yaml"))


@settings(max_examples=200)
@given(st.binary(max_size=200) | st.text("[]{}:,-&*!?|>'\"%@`# \nab1~", max_size=80))
def test_no_bytes_make_the_loader_fail_in_another_way(data):
    with contextlib.suppress(errors.UsageError):
        assert documents.parse(data, "f.yaml").mark.file == "f.yaml"


SHAPES = {
    "settings": setting_files.SHAPE,
    "policy": policy_files.SHAPE,
    "inventory": inventories.SHAPE,
    "monitoring": autoexp_shapes.MONITOR,
    "restart": mode_shapes.RESTART,
}
words = st.sampled_from(
    [
        "kind",
        "version",
        "rules",
        "cause",
        "action",
        "after",
        "hosts",
        "a",
        "host",
        "class_name",
        "log_signals",
        "pattern",
        "state",
        "actions",
        "command",
        "metadata",
        "extract_groups",
        "policies",
        "crash",
        "implementation",
        "max_retries",
        "SlurmLogMonitor",
        "CrashState",
        "ExecutionAction",
        "run",
        "grace",
    ]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | words
    | st.sampled_from(["(", "{x}", "a | b", "1h"])
)
trees = st.recursive(
    scalars, lambda t: st.lists(t, max_size=3) | st.dictionaries(words, t, max_size=4), max_leaves=12
)


def valued(data):
    mark = documents.Mark("f.yaml", 1, 1)
    if isinstance(data, dict):
        return documents.Value({k: valued(v) for k, v in data.items()}, mark)
    return documents.Value(tuple(map(valued, data)) if isinstance(data, list) else data, mark)


@settings(max_examples=300)
@given(st.sampled_from(sorted(SHAPES)), st.dictionaries(words, trees, max_size=5))
def test_every_tree_is_read_or_its_mistakes_are_noted(kind, tree):
    problems = shapes.Problems()
    try:
        SHAPES[kind].read(valued(tree), "", problems)
    except shapes.Invalid:
        assert problems.found
    else:
        assert not problems.found
