"""`run --on ssh:HOST/`, `attach ssh:HOST/...`: the far Runward gets the same words, each as one word."""

import json
import os

import pytest

import commands

pytestmark = [pytest.mark.sshd, pytest.mark.e2e]

WORDS = ["--name", "it's $(touch /root/pwned)", "--", "python", "train me.py", "--on", "--detach", "a\nb"]


def test_the_words_arrive_whole_and_the_run_is_detached(net, tmp_path):
    there = net.folder / "there"
    there.mkdir()
    script = there / "runward"
    script.write_text("#!/usr/bin/env python3\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    script.chmod(0o755)
    box = net.add(settings=f"SetEnv PATH={there}:/usr/bin:/bin")
    bare = net.add()
    env = {
        **os.environ,
        "PATH": f"{net.program(tmp_path / 'bin')}:{os.environ['PATH']}",
        "RUNWARD_STATE_DIR": str(tmp_path),
    }

    def run(alias):
        return commands.runward(env, "run", "--on", f"ssh:{alias}/", *WORDS)

    done = run(box.alias)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["run", "--detach", *WORDS]
    assert not (box.home / "pwned").exists()
    words = ["--name", "a b", f"ssh:{box.alias}/local:1", "--log", "x y"]
    done = commands.runward(env, "attach", *words)
    assert json.loads(done.stdout) == ["attach", "--detach", "--name", "a b", "local:1", "--log", "x y"]
    done = run(bare.alias)
    assert done.returncode == 75
    assert "not installed there" in done.stderr
