"""A lock names its holder, and ends with it."""

import os
import subprocess
import sys

from runward.store import locks

HOLD = "import sys; from runward.store import locks; l = locks.FileLock(sys.argv[1]); print(l.take(), flush=True); sys.stdin.read()"


def test_a_lock_names_its_holder_and_ends_with_it(tmp_path):
    path = str(tmp_path / "watcher.lock")
    assert locks.holder(path) is None
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline().strip() == "True"
    assert locks.holder(path) == child.pid
    mine = locks.FileLock(path)
    assert not mine.take()
    child.kill()
    child.communicate()
    assert locks.holder(path) is None
    assert mine.take()
    assert mine.held
    mine.release()


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path):
    os.symlink("/etc/passwd", tmp_path / "watcher.lock")
    assert locks.holder(str(tmp_path / "watcher.lock")) is None
