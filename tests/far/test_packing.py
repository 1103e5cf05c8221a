"""What is sent to a far box: the same bytes each time, nothing compiled, and enough to run."""

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile

import pytest

from runward.wiring import far_install, packing


@pytest.fixture(scope="module")
def pack():
    return packing.make("1.2")


def test_the_same_installation_gives_the_same_bytes(pack):
    assert packing.make("1.2").data == pack.data
    assert pack.digest == hashlib.sha256(pack.data).hexdigest()
    assert pack.name == f"1.2-{pack.digest[:8]}"


def test_nothing_compiled_travels_and_our_data_files_do(pack):
    names = zipfile.ZipFile(io.BytesIO(pack.data)).namelist()
    assert not [
        name for name in names if name.endswith((".so", ".pyc")) or name.startswith("/") or ".." in name
    ]
    assert {
        "runward/probes/probe.sh",
        "runward/cli/agent_guide.md",
        "runward/rulesets/compiled.jsonl",
        "click/__init__.py",
        "yaml/__init__.py",
    } <= {*names}
    assert "pyperscan" in pack.left_out


def test_it_is_unpacked_tried_and_named_and_a_second_time_nothing_changes(pack, tmp_path):
    home = tmp_path / "it's a home"
    words = [str(home / "rw"), pack.name, pack.digest, str(home / "bin" / "runward"), "2"]

    def install(data):
        code = [sys.executable, "-I", far_install.__file__, *words]
        done = subprocess.run(code, input=data, capture_output=True, check=False, timeout=120)
        return done.returncode, json.loads(done.stdout)

    code, told = install(pack.data[:-1])
    assert (code, told["action"]) == (1, "failed")
    assert not home.exists()
    code, told = install(pack.data)
    assert (code, told["action"]) == (0, "installed"), told
    done = subprocess.run(
        [home / "bin" / "runward", "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.startswith("runward, version"), done.stderr
    assert install(pack.data)[1]["action"] == "already"
    assert [path.name for path in (home / "rw" / "versions").iterdir()] == [pack.name]


def test_a_pack_that_does_not_run_is_not_named(tmp_path):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("runward/__init__.py", "raise SystemExit('broken')")
    digest = hashlib.sha256(data.getvalue()).hexdigest()
    done = subprocess.run(
        [sys.executable, "-I", far_install.__file__, str(tmp_path / "rw"), "1-x", digest, str(tmp_path / "link"), "2"],
        input=data.getvalue(), capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "does not run" in json.loads(done.stdout)["why"]
    assert list((tmp_path / "rw" / "versions").iterdir()) == []
    assert not (tmp_path / "link").exists()


def version(top, name, at):
    folder = top / name
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "pyvenv.cfg").touch()
    (folder / "bin" / "runward").touch()
    (folder / "bin" / "python").symlink_to(sys.executable)
    os.utime(folder, (at, at))
    return folder


def test_old_versions_go_and_never_one_that_a_process_or_a_schedule_names(tmp_path, monkeypatch):
    top = tmp_path / "versions"
    for at, name in enumerate(("1", "2", "3", "4", "5")):
        version(top, name, 1e9 + at)
    (top / "mine").mkdir()  # of its owner, not ours
    units = tmp_path / "systemd" / "user"
    units.mkdir(parents=True)
    (units / "x.service").write_text(f"ExecStart={top}/2/bin/python -m runward patrol\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    sleep = "import time; time.sleep(600)"
    lives = subprocess.Popen([str(top / "1" / "bin" / "python"), "-c", sleep])
    try:
        assert far_install._prune(str(top), ["5", ""], 0) == []
        assert far_install._prune(str(top), ["5", "3"], 2) == ["4"]
    finally:
        lives.kill()
        lives.wait()
    assert sorted(os.listdir(top)) == ["1", "2", "3", "5", "mine"]
    assert far_install._prune(str(top), ["5", ""], 2) == ["1"]
