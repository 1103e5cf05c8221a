"""Signals of a monitoring configuration: recorded once, executed as argv, reported together."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import waiting
from fakes import clock as clocks
from runward import ports
from runward.app import signalling
from runward.core import log_signals, mode_policies, run
from runward.runners import local
from runward.scan import tailer

SAVED = r"saved iteration (?P<n>\d+)"


def monitor(*command: str) -> log_signals.Monitor:
    actions = (log_signals.RecordedAction("ExecutionAction", command=command),) if command else ()
    saved = log_signals.LogSignal("saved", SAVED, actions=actions, extract_groups={"n": "n"})
    crash = log_signals.LogSignal(
        "nccl", "NCCL ERROR", state=log_signals.State("CrashState", "crash"), metadata={"error_type": "nccl"}
    )
    return log_signals.Monitor(log_signals=(saved, crash))


class World:
    def __init__(self, folder: Path, *command: str) -> None:
        self.folder, self.log = folder, folder / "log"
        self.log.write_bytes(b"")
        self.command = command
        self.signals = self.anew()

    def anew(self) -> signalling.Signalling:
        means = signalling.Means(
            monitor=monitor(*self.command),
            streams=lambda _: [tailer.FileLog(str(self.log), look_s=0.0)],
            runner=local.Local(),
            clock=clocks.FakeClock(),
            folder=str(self.folder / "actions"),
            cwd=str(self.folder),
            timeout_s=30.0,
        )
        return signalling.Signalling(means)

    def write(self, text: str) -> None:
        with self.log.open("a") as file:
            file.write(text)

    def reports(self) -> tuple[mode_policies.Report, ...]:
        self.signals._take_up("7@0", 1)
        return self.signals.reports("7@0")

    def records(self) -> list[Mapping[str, object]]:
        return [json.loads(path.read_text()) for path in sorted((self.folder / "actions").glob("*.json"))]


def test_a_command_runs_once_an_event_with_its_fields_filled_in_and_its_output_kept(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:]); open('out','a').write(sys.argv[1]+'\\n')"
    world = World(tmp_path, sys.executable, "-c", code, "--at={n}; rm -rf {line}")
    world.write("saved iteration 5 $(touch x) {y}\nsaved iteration 6\nsaved iterat")
    world.reports()
    waiting.wait_until(
        lambda: (
            world.signals.look(run.RunState())
            or (all("outcome" in one for one in world.records()) and world.records())
        ),
        "outcomes",
    )
    assert sorted((tmp_path / "out").read_text().splitlines()) == [
        "--at=5; rm -rf saved iteration 5 $(touch x) {y}",
        "--at=6; rm -rf saved iteration 6",
    ]
    assert not (tmp_path / "x").exists()
    world.signals = world.anew()
    world.reports()
    world.signals.close()
    assert len((tmp_path / "out").read_text().splitlines()) == 2, "another watcher reads the same log"
    world.write("ion 7\n")
    world.reports()
    world.signals.close()
    assert len((tmp_path / "out").read_text().splitlines()) == 3
    assert len(world.records()) == 3


def test_a_command_that_fails_is_told_and_stands_in_nobodys_way(tmp_path: Path) -> None:
    world = World(tmp_path, "no-such-program-at-all")
    world.write("saved iteration 5\n")
    world.reports()
    world.signals.close()
    (note,) = world.signals.look(run.RunState())
    assert "no-such-program-at-all" in str(note)
    (record,) = world.records()
    assert record["event"] == "saved"


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_lines_in_pieces_of_any_size_give_the_same_reports(tmp_path: Path, size: int) -> None:
    world = World(tmp_path)
    text = "step 1\nNCCL ERROR here\nNCCL ERROR there\n"
    for start in range(0, len(text), size):
        world.write(text[start : start + size])
        found = world.reports()
    assert [(one.mode, one.error_type, one.signal_name) for one in found] == [
        (mode_policies.Mode.CRASH, "nccl", "nccl")
    ]


def test_the_schedulers_success_silences_lines_and_its_plain_failure_yields_to_them() -> None:
    crash = mode_policies.Report(mode_policies.Mode.CRASH, "nccl", "distributed", "nccl")
    success = mode_policies.Report(mode_policies.Mode.SUCCESS)
    failed = mode_policies.Report(mode_policies.Mode.CRASH, "slurm_failure", "slurm")
    assert signalling.together((crash,), (success,)) == (success,)
    assert signalling.together((crash,), (failed,)) == (crash,)
    assert signalling.together((), (failed,)) == (failed,)


def test_a_log_that_cannot_be_read_is_no_signal(tmp_path: Path) -> None:
    world = World(tmp_path)

    def lost(_: str) -> list[ports.LogStream]:
        raise ports.ContactLost("gone")

    means = signalling.Means(
        monitor(), lost, local.Local(), clocks.FakeClock(), str(tmp_path / "actions"), str(tmp_path)
    )
    world.signals = signalling.Signalling(means)
    assert world.reports() == ()


def test_of_progress_only_the_newest_event_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path)
    note = log_signals.RecordedAction("ErrorNoteAction", "progress_update")
    step = log_signals.LogSignal(
        "step", r"step (?P<n>\d+)", actions=(note,), metadata={"kind": "progress"}, extract_groups={"n": "n"}
    )
    means = signalling.Means(
        log_signals.Monitor(log_signals=(step,)),
        lambda _: [tailer.FileLog(str(world.log), look_s=0.0)],
        local.Local(),
        clocks.FakeClock(),
        str(tmp_path / "actions"),
        str(tmp_path),
    )
    world.signals = signalling.Signalling(means)
    world.write("".join(f"step {n}\n" for n in range(5000)))
    world.reports()
    world.write("step 5000\n")
    world.reports()
    (record,) = world.records()
    assert (record["event"], record["metadata"]["n"]) == ("step", "5000")
