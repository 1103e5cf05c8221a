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
        (["docker:x", "--all-dead"], errors.UsageError, "names one container"),
        (["docker:x", "docker:y"], errors.UsageError, "one container at a time"),
        (["train.log", "docker:y"], errors.UsageError, "one container at a time"),
        (["docker:x", "--since", "1h"], errors.UsageError, "--since without --all-dead"),
        (["docker:x", "--exit-code", "1"], errors.UsageError, "--exit-code: is not for containers"),
        (["docker:x", "--attempt", "2"], errors.UsageError, "--attempt"),
        (["docker:x", "--kernel-log", "k"], errors.UsageError, "--kernel-log"),
        (["docker:x", "--explain"], errors.UsageError, "--explain"),
        (["train.log", "--all-dead"], errors.UsageError, "for containers"),
        (["train.log", "--format", "classic"], errors.UsageError, "for containers"),
    ],
)
def test_what_cannot_be_asked_is_said(argv, kind, words, monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonesuch.sock")
    with pytest.raises(kind, match=words):
        CliRunner().invoke(diagnose, argv, catch_exceptions=False)
