"""`runward diagnose docker:...` where there is no engine: errors in words, before anything else is tried."""

import pytest
from click.testing import CliRunner

from runward.cli.diagnose import diagnose
from runward.core import errors


@pytest.mark.parametrize(
    ("argv", "kind", "words"),
    [
        (["docker:"], errors.UsageError, "docker:latest"),
        (["docker:x"], errors.Unreachable, r"nonesuch\.sock"),
        (["docker:", "--all-dead", "--since", "soon"], errors.UsageError, "--since"),
        (["train.log", "--all-dead"], errors.UsageError, "for containers"),
        (["train.log", "--format", "classic"], errors.UsageError, "for containers"),
    ],
)
def test_what_cannot_be_asked_is_said(argv, kind, words, monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonesuch.sock")
    with pytest.raises(kind, match=words):
        CliRunner().invoke(diagnose, argv, catch_exceptions=False)
