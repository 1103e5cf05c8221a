"""`runward rules match`: one JSON object a line."""

import json

from click.testing import CliRunner

from runward.cli import rules_match


def test_every_signal_of_a_file_is_one_object(tmp_path):
    log = tmp_path / "train.log"
    log.write_bytes(
        b"starting \xff\n[default0]:NCCL ERROR timeout\n  successfully saved checkpoint from iteration  5 to /c\n"
    )
    done = CliRunner().invoke(rules_match.match, ["--monitoring", "megatron_production", str(log), "--json"])
    assert done.exit_code == 0, done.output
    first, second = (json.loads(line) for line in done.output.splitlines())
    assert first == {
        "name": "nccl_error",
        "state": "CrashState",
        "fields": {"error_message": "timeout"},
        "metadata": {"error_type": "nccl", "subsystem": "distributed", "severity": "critical"},
        "line": 2,
    }
    assert (second["name"], second["state"], second["line"]) == ("checkpoint_saved", None, 3)


def test_an_override_leaves_a_signal_out(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("NCCL ERROR x\n")
    words = ["--set", "monitoring.log_signals.nccl_error.enabled=false", str(log)]
    assert CliRunner().invoke(rules_match.match, words).output == ""
