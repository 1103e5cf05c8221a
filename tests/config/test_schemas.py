"""The JSON Schemas for editors: right by their own rules, and every packaged file and template is valid by them."""

import pathlib

import jsonschema
import pytest
import yaml

import runward
from runward.config import kinds

ROOT = pathlib.Path(runward.__file__).parent
FILES = [
    *(("monitoring", path) for path in sorted((ROOT / "presets" / "monitoring").glob("*.yaml"))),
    *(("restart", path) for path in sorted((ROOT / "presets" / "restart").glob("*.yaml"))),
    *(("policy", path) for path in sorted((ROOT / "policies").glob("*.yaml"))),
]


def validator(kind: str) -> jsonschema.Draft202012Validator:
    schema = kinds.schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(("kind", "path"), FILES, ids=[f"{kind}/{path.stem}" for kind, path in FILES])
def test_packaged_files_are_valid(kind, path):
    validator(kind).validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_templates_are_valid(kind):
    validator(kind).validate(yaml.safe_load(kinds.template(kind)) or {})


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("monitoring", "poll_interval_second: 5"),
        ("monitoring", "log_signals: [{name: a, pattern: x, state: {class_name: CrashStat}}]"),
        ("monitoring", "log_signals: [{pattern: x}]"),
        ("restart", "policies: [{mode: crash, implementation: {max_retry: 5}}]"),
        ("restart", "policies: [{mode: crash, implementation: {class_name: AlwaysRestart}}]"),
        ("run", "restart: {policies: [{mode: crash, implementation: {max_retries: many}}]}"),
        ("chain", "{kind: chain, version: 1, stages: {a: {argv: []}}}"),
    ],
)
def test_mistakes_are_not(kind, text):
    assert not validator(kind).is_valid(yaml.safe_load(text))
