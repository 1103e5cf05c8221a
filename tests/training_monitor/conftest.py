"""A head pod that is this machine: a stand-in kubectl."""

import json
import os
import sys
from pathlib import Path

import pytest

from fakes import kubectl


class Cluster:
    def __init__(self, folder: Path, env: pytest.MonkeyPatch) -> None:
        self.folder, self._env = folder, env
        self.calls_file = folder / "calls"
        self.calls_file.touch()
        (folder / "bin").mkdir()
        env.setenv("KUBECTL", f"{sys.executable} -S {kubectl.__file__}")
        env.setenv("STAND_IN_CALLS", str(self.calls_file))
        env.setenv("STAND_IN_PODS", json.dumps({"default": ["head", "head-worker-abc12"], "ml": ["head"]}))
        env.setenv("STAND_IN_PATH", str(folder / "bin"))
        env.setenv("RAY_TMPDIR", str(folder))
        env.setenv("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:9")
        self.logs = folder / "ray" / "session_latest" / "logs"
        self.logs.mkdir(parents=True)

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self.calls_file.read_text().splitlines()]

    def ray_at(self, url: str) -> None:
        self._env.setenv("RAY_API_SERVER_ADDRESS", url)

    def program(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!{sys.executable}\n{body}")
        os.chmod(path, 0o755)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)
