import ast
import json
import pathlib
import subprocess
import sys

from fixtures import damages
from runward.checkpoint_readers import bundle, scanner


def run(*argv):
    return subprocess.run(
        [sys.executable, "-I", "-S", *argv], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_packed_readers_say_the_same_as_the_installed_ones(tmp_path):
    pyz = tmp_path / "verify.pyz"
    bundle.write(str(pyz))
    directory = damages.unpacked("dcp", tmp_path)
    done = run(str(pyz), str(directory), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == scanner.scan(str(directory), depth="full")
    damages.flip(damages.payload(directory / "step-20"))
    done = run(str(pyz), str(directory))
    assert done.returncode == 1
    assert "step-20  damaged: " in done.stdout


def test_a_large_metadata_is_walked_in_a_limited_child_from_within_the_pack_too(tmp_path):
    pyz = tmp_path / "verify.pyz"
    bundle.write(str(pyz))
    directory = damages.unpacked("dcp", tmp_path)
    metadata = directory / "step-20" / ".metadata"
    data = metadata.read_bytes()
    # As many pushed and dropped numbers as make it too large to be walked at once.
    metadata.write_bytes(data[:2] + b"K\x010" * 150_000 + data[2:])
    assert json.loads(run(str(pyz), str(directory), "--json").stdout)["checkpoints"][1]["verified"] == "full"
    damages.truncate(directory / "step-20" / "__0_0.distcp", 0.9)
    assert json.loads(run(str(pyz), str(directory), "--json").stdout)["checkpoints"][1]["state"] == "partial"


def test_no_directory_and_wrong_usage_have_their_own_codes(tmp_path):
    pyz = tmp_path / "verify.pyz"
    bundle.write(str(pyz))
    assert run(str(pyz), str(tmp_path / "no")).returncode == 3
    assert run(str(pyz)).returncode == 2
    assert run(str(pyz), str(tmp_path)).returncode == 1


def test_every_reader_is_written_in_python_3_9():
    for file in sorted(pathlib.Path(scanner.__file__).parent.glob("*.py")):
        ast.parse(file.read_text(), file.name, feature_version=(3, 9))
