"""The one-file command, run as people run it: a copy in an empty directory, `python3 -I`, a fake nvidia-smi."""

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runward.compat import gpu_idle_timeout

SOURCE = Path(gpu_idle_timeout.__file__)
STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ")
A, B = "GPU-a5b02c30-9c95-cb81-e41e-ca204d57aa3b", "GPU-b805d632-775b-c673-fe68-26b26996cd09"
KILLED = (
    f"ERROR: gpu_idle_timeout: usage for all GPUs: ['{A}', '{B}'] was below threshhold 1% for last "
    "{} seconds. Killing process."
)
STILL = "ERROR: gpu_idle_timeout: process still alive, maybe hung, killing."

# Answers one line of the plan a call, and the last one from then on.
FAKE = """#!/bin/sh
n=$(cat {here}/calls 2>/dev/null || echo 0); n=$((n+1)); echo $n > {here}/calls.new; mv {here}/calls.new {here}/calls
total=$(wc -l < {here}/plan); [ $n -gt $total ] && n=$total
eval "$(sed -n "${{n}}p" {here}/plan)"
"""
FAST = """
import sys; sys.path.insert(0, {folder!r})
import gpu_idle_timeout as g
g.configure_logging(True); g.QUERY_DEADLINE_S = {deadline}; g.BUSY_CORES = {cores}
sys.exit(g.IdleGpuWatcher({t}, {s}, {n}, {d}, {rest} adopt_orphans=True).watch_process(sys.argv[1:]))
"""


def reading(*percents, memory=None):
    shown = [
        f"{uuid}, {p} %" if isinstance(p, int) else f"{uuid}, {p}"
        for uuid, p in zip((A, B), percents, strict=False)
    ]
    text = "; ".join(f"echo '{line}'" for line in shown) or ":"
    if memory is None:
        return text
    other = "; ".join(f"echo '{uuid}, {memory} %'" for uuid, _ in zip((A, B), percents, strict=False))
    return f'case "$*" in *memory*) {other};; *) {text};; esac'


IDLE = reading(0, 0)


@dataclass
class Box:
    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    python: str = sys.executable

    def plan(self, *answers):
        (self.folder / "plan").write_text("\n".join(answers) + "\n")

    def start(self, *argv, cwd=None):
        return subprocess.Popen(
            argv,
            env=self.env,
            cwd=cwd or self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def cli(self, *args):
        return end(self.start(self.python, "-I", "./gpu_idle_timeout.py", *args))

    def fast_argv(self, *command, t=1, s=0.1, n=3, d=0, rest="", deadline=10.0, cores=5.0):
        # Within a window of 0.3 s on a loaded machine a shell that starts `sleep` uses a fifth of a core, which is work
        # by the real limit: the tests about work ask for a limit of their own.
        code = FAST.format(
            folder=str(self.folder), t=t, s=s, n=n, d=d, rest=rest, deadline=deadline, cores=cores
        )
        return [self.python, "-I", "-c", code, *command]

    def fast(self, *command, **options):
        return end(self.start(*self.fast_argv(*command, **options)))

    def until_calls(self, number):
        """A command that ends by itself when nvidia-smi was asked `number` times."""
        path = self.folder / "calls"
        return ["sh", "-c", f"until [ $(cat {path} 2>/dev/null || echo 0) -ge {number} ]; do sleep 0.1; done"]

    def calls(self):
        path = self.folder / "calls"
        return int(path.read_text() or 0) if path.exists() else 0


@dataclass
class Ended:
    code: int
    out: str
    err: str

    @property
    def lines(self):
        return [STAMP.sub("", line) for line in self.err.splitlines()]


def end(process):
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        raise
    return Ended(process.returncode, out, err)


def wait_for(condition):
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.05)
    return False


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def box(tmp_path):
    folder = tmp_path / "context"
    folder.mkdir()
    shutil.copy(SOURCE, folder / "gpu_idle_timeout.py")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "nvidia-smi").write_text(FAKE.format(here=folder))
    (bin_ / "nvidia-smi").chmod(0o755)
    path = f"{bin_}:{Path(sys.executable).parent}:/usr/bin:/bin"
    made = Box(folder, {"PATH": path, "PYTHONPATH": str(SOURCE.parents[2])})
    made.plan(IDLE)
    return made


def test_the_file_is_python_3_7_and_imports_nothing_that_must_be_installed():
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 7))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= set(sys.stdlib_module_names)


def test_export_prints_this_very_file():
    done = subprocess.run(
        [sys.executable, "-m", "runward", "export", "gpu-idle-timeout"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == SOURCE.read_bytes()


def test_module_form_runs_the_same_command_line(box):
    done = end(box.start(sys.executable, "-m", "runward.compat.gpu_idle_timeout", "-t", "0", "true"))
    assert done.code == 1
    assert "THRESHHOLD_PERCENTAGE must be greater than 0." in done.err


def test_help_shows_every_flag_with_its_default(box):
    done = box.cli("--help")
    text = " ".join(done.out.split())
    assert done.code == 0
    assert text.startswith("usage: gpu_idle_timeout [-h] [-t THRESHHOLD_PERCENTAGE] [-s SAMPLE_FREQ]")
    assert "Note: requires 'nvidia-smi' binary to be accessible in PATH" in text
    for flag, default in {
        "--threshhold-percentage": "1",
        "--sample-freq": "5",
        "--num-samples": "60",
        "--delay-samples": "12",
        "--debug": "False",
        "--all-or-any": "all",
        "--signal-name": "SIGQUIT",
        "--signal-children": "False",
    }.items():
        assert re.search(rf"{flag}\b[^()]*(\([^()]*\)\.? *)?\(default: {default}\)", text), flag


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "You must append the program and arguments you would like to execute."),
        (["-t", "0"], "You must append the program and arguments you would like to execute."),
        (["--"], "You must append the program and arguments you would like to execute."),
        (["-t", "0", "-s", "0", "true"], "THRESHHOLD_PERCENTAGE must be greater than 0."),
        (["-s", "-1", "-n", "0", "true"], "SAMPLE_FREQ must be greater than 0."),
        (["-n", "0", "true"], "NUM_SAMPLES must be greater than 0."),
        (["--signal-name", "SIGWAT", "true"], "unknown SIGNAL 'SIGWAT'."),
        (["--signal-name", "SIG_IGN", "true"], "unknown SIGNAL 'SIG_IGN'."),
    ],
)
def test_wrong_use_prints_help_then_the_first_fault_and_exits_1(box, args, message):
    done = box.cli(*args)
    assert done.code == 1
    assert done.out.startswith("usage: gpu_idle_timeout")
    assert done.err == f"\nERROR: {message}\n"


def test_a_word_where_a_number_belongs_exits_2(box):
    assert box.cli("-t", "many", "true").code == 2


def test_without_nvidia_smi_nothing_is_started(box, monkeypatch):
    box.env["PATH"] = "/nowhere"
    done = box.cli(sys.executable, "-c", "print('started')")
    assert (done.code, done.err) == (1, "\nERROR: Unable to locate 'nvidia-smi'\n")
    assert "started" not in done.out
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match="Unable to locate 'nvidia-smi'"):
        gpu_idle_timeout.IdleGpuWatcher(1, 5, 60, 12)


def test_an_idle_command_is_killed_with_the_known_lines_after_the_known_number_of_samples(box):
    done = box.cli("-s", "1", "-n", "2", "-d", "2", "-x", "sleep", "300")
    sample = [f"DEBUG: gpu_idle_timeout: {uuid} usage 0%" for uuid in (A, B)]
    assert done.lines == [
        (
            "INFO: gpu_idle_timeout: Starting GPU idle watcher: threshhold_percentage=1%, sample_freq=1, "
            "num_samples=2, delay_samples=2, window_size=2"
        ),
        "INFO: gpu_idle_timeout: waiting for delay samples. 1 seconds left",
        *sample,
        *sample,
        KILLED.format(2),
        STILL,
    ]
    assert all(STAMP.match(line) for line in done.err.splitlines())
    assert done.code == 1


def test_the_recipes_entrypoint_line_works_in_an_empty_directory(box):
    (box.folder / "train.py").write_text("import time; print('batch limit hit', flush=True); time.sleep(300)")
    box.plan(reading(37, 19), reading(0, 1))
    line = "python3 ./gpu_idle_timeout.py -t 20 -s 1 -n 2 -d 1 -x python3 train.py"
    done = end(box.start("sh", "-c", line))
    assert done.code == 1
    assert done.out == "batch limit hit\n"
    assert done.lines[-2].endswith("was below threshhold 20% for last 2 seconds. Killing process.")


@pytest.mark.parametrize(("d", "waits"), [(3, 2), (1, 0), (0, 0), (-4, 0)])
def test_sampling_begins_after_the_delay_and_at_least_one_period(box, d, waits):
    done = box.fast("sleep", "300", d=d)
    assert sum("waiting for delay samples" in line for line in done.lines) == waits
    assert sum(f"{A} usage" in line for line in done.lines) == 3
    assert done.code == 1


def test_debug_lines_only_with_the_flag(box):
    done = box.cli("-s", "1", "-n", "1", "-d", "0", "sleep", "300")
    assert [line.split(":")[0] for line in done.lines] == ["INFO", "ERROR", "ERROR"]


@pytest.mark.parametrize(("t", "percent", "killed"), [(50, 49, True), (50, 50, False)])
def test_below_means_strictly_below(box, t, percent, killed):
    box.plan(reading(percent, percent))
    command = ["sleep", "300"] if killed else box.until_calls(7)
    assert (box.fast(*command, t=t).code == 1) is killed


def test_one_busy_gpu_keeps_the_command_alive(box):
    box.plan(reading(0, 80))
    assert box.fast(*box.until_calls(7)).code == 0


def test_any_kills_for_one_idle_gpu_and_names_it(box):
    box.plan(reading(0, 80))
    done = box.fast("sleep", "300", rest="'any',")
    assert done.code == 1
    assert f"usage for any GPU: ['{A}'] was below threshhold 1%" in done.err


def test_use_inside_the_window_starts_it_again(box):
    box.plan(IDLE, IDLE, reading(0, 9), IDLE)
    done = box.fast("sleep", "300")
    assert (done.code, box.calls()) == (1, 6)


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 247), ("kill -15 $$", 241)],
)
def test_the_commands_own_end_is_passed_on(box, script, code):
    box.plan(reading(90, 90))
    assert box.cli("sh", "-c", script).code == code


def test_the_commands_own_flags_and_dashes_are_left_alone(box):
    done = box.cli("-s", "9", sys.executable, "-c", "import sys; print(sys.argv[1:])", "-t", "--", "-x")
    assert done.out == "['-t', '--', '-x']\n"


def test_dashes_before_the_command_are_not_the_command(box):
    assert box.cli("-s", "9", "--", "sh", "-c", "exit 5").code == 5


@pytest.mark.parametrize(("command", "code"), [("no-such-command", 127), ("/etc/passwd", 126), ("/etc", 126)])
def test_what_cannot_be_executed_gives_the_codes_of_a_shell(box, command, code):
    done = box.cli(command)
    assert done.code == code
    assert "Traceback" not in done.err
    assert f"cannot execute '{command}'" in done.err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (":", "nvidia-smi lists no GPU"),
        ("echo 'Unable to determine the device handle'; exit 9", "nvidia-smi exited with code 9: Unable to"),
        (reading("[N/A]", "[N/A]"), "no usage reading for GPUs"),
        (reading(0, "[N/A]"), f"no usage reading for GPUs: ['{B}']"),
        ("echo 'Segmentation fault'", "Unexpected output format: Segmentation fault"),
        (reading(0, 4294967295), "Unexpected output format"),
        ("kill -11 $$", "nvidia-smi exited with code -11"),
    ],
)
def test_a_failed_or_odd_reading_never_kills(box, answer, said):
    box.plan(answer)
    done = box.fast(*box.until_calls(7))
    assert done.code == 0
    assert said in done.err
    assert done.err.count(said) == 1


def test_a_reading_that_fails_once_only_puts_the_kill_off(box):
    box.plan(IDLE, "exit 3", IDLE)
    done = box.fast("sleep", "300")
    assert (done.code, box.calls()) == (1, 4)


def test_a_gpu_that_is_gone_from_the_list_is_not_idle_until_it_was_missing_for_a_window(box):
    box.plan(reading(0, 50), reading(0))
    done = box.fast("sleep", "300", n=4)
    assert (done.code, box.calls()) == (1, 5)
    assert f"usage for all GPUs: ['{A}'] was" in done.err


def test_a_hung_nvidia_smi_neither_blocks_nor_kills(box):
    box.plan("exec sleep 300")
    done = box.fast("sh", "-c", "sleep 2; exit 3", deadline=0.3)
    assert done.code == 3
    assert "nvidia-smi has not answered for 0 seconds" in done.err


def test_a_signal_reaches_the_command_while_nvidia_smi_hangs(box):
    box.plan(f"echo hangs > {box.folder}/hangs; exec sleep 300")
    process = box.start(*box.fast_argv("sleep", "300"))
    assert wait_for((box.folder / "hangs").exists)
    process.terminate()
    assert end(process).code == 256 - signal.SIGTERM


def grandchild(box, inner, outer="wait"):
    """A shell whose child writes its pid; returns the command."""
    return ["sh", "-c", f"setsid sh -c 'echo $$ > {box.folder}/pid; {inner}' & {outer}"]


def pid_of(box):
    path = box.folder / "pid"
    assert wait_for(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


def test_the_whole_tree_dies_with_ranks_in_their_own_sessions_and_orphans(box):
    ignoring = 'trap "" QUIT TERM; while :; do sleep 1; done'
    outer = f"(setsid sh -c 'echo $$ > {box.folder}/orphan; exec sleep 300' &); wait"
    done = box.fast(*grandchild(box, ignoring, outer), n=8)
    assert done.code == 1
    assert not alive(pid_of(box))
    assert not alive(int((box.folder / "orphan").read_text()))


def test_sigterm_is_forwarded_and_the_command_may_finish_its_work(box):
    box.plan(reading(90, 90))
    script = f"trap 'echo saved; exit 4' TERM; echo ready > {box.folder}/ready; while :; do sleep 0.1; done"
    process = box.start(*box.fast_argv("sh", "-c", script))
    assert wait_for((box.folder / "ready").exists)
    process.terminate()
    done = end(process)
    assert (done.code, done.out) == (4, "saved\n")


def test_after_a_forwarded_sigterm_nothing_is_left_running(box):
    box.plan(reading(90, 90))
    process = box.start(*box.fast_argv(*grandchild(box, "exec sleep 300")))
    pid = pid_of(box)
    process.terminate()
    assert end(process).code == 256 - signal.SIGTERM
    assert not alive(pid)


def test_a_usr1_is_forwarded_and_ends_nothing(box):
    box.plan(reading(90, 90))
    script = f"trap 'echo usr1; exit 6' USR1; echo ready > {box.folder}/ready; while :; do sleep 0.1; done"
    process = box.start(*box.fast_argv("sh", "-c", script))
    assert wait_for((box.folder / "ready").exists)
    process.send_signal(signal.SIGUSR1)
    done = end(process)
    assert (done.code, done.out) == (6, "usr1\n")


def test_the_named_signal_comes_first_and_gives_time_to_save(box):
    script = "trap 'echo saved; exit 0' USR2; while :; do sleep 0.05; done"
    done = box.fast("sh", "-c", script, rest="'all', 'SIGUSR2',", n=5)
    assert done.out == "saved\n"
    assert done.code == 1
    assert any(re.match(r"INFO: .*: Sending signal SIGUSR2 to process \d+$", line) for line in done.lines)
    assert STILL not in done.lines


def test_a_command_that_ignores_the_signal_is_killed(box):
    done = box.fast("sh", "-c", "trap '' USR2; while :; do sleep 0.2; done", rest="'all', 'SIGUSR2',")
    assert done.code == 1
    assert STILL in done.lines


def test_children_are_signalled_deepest_first(box):
    done = box.fast("sh", "-c", "sh -c 'sleep 300; :' ; :", rest="'all', 'SIGTERM', True,")
    wanted = [
        r"signal children: logging process tree",
        r"signal children: layer 0: pid \d+: 'sh -c sleep 300; :'",
        r"signal children: layer 1: pid \d+: 'sleep 300'",
        r"signal children: signalling started",
        r"signal children: send signal SIGTERMto pid \d+ in layer 1",
        r"signal children: send signal SIGTERMto pid \d+ in layer 0",
        r"signal children: signaling ended",
        r"Sending signal SIGTERM to process \d+",
    ]
    said = [line for line in done.lines if "signal" in line.lower() and line.startswith("INFO")]
    assert len(said) == len(wanted)
    for line, pattern in zip(said, wanted, strict=True):
        assert re.fullmatch(f"INFO: gpu_idle_timeout: {pattern}", line), line


@pytest.mark.parametrize(
    "work",
    [
        "while True: sum(range(1000))",
        "f = open('ckpt', 'wb', 0)\nwhile True: f.write(b'x' * 65536); f.seek(0)",
    ],
    ids=["evaluation on the CPU", "writing a checkpoint"],
)
def test_a_tree_that_computes_or_writes_beside_idle_gpus_is_not_killed(box, work):
    # The limit on that is an hour, so the test ends it by SIGTERM once the command was spared.
    process = box.start(*box.fast_argv(sys.executable, "-c", work, s=0.3, n=3, cores=0.01))
    assert wait_for(lambda: box.calls() >= 12)
    assert process.poll() is None
    process.terminate()
    done = end(process)
    assert done.code == 256 - signal.SIGTERM
    assert "but the process is working" in done.err
    assert "Killing" not in done.err


def test_a_spinning_collective_is_said_and_not_killed(box):
    # On a loaded machine it takes any number of queries until a window is whole: the command goes on until it was said.
    box.plan(reading(100, 0, memory=0))
    command = "for _ in $(seq 600); do [ -e said ] && exit 0; sleep 0.1; done; exit 3"
    process = box.start(*box.fast_argv("sh", "-c", command))
    said = f"WARNING: gpu_idle_timeout: GPUs ['{A}'] are at 100% without using their memory"
    assert any(said in line for line in process.stderr)
    (box.folder / "said").touch()
    assert end(process).code == 0


def test_full_use_with_memory_traffic_is_just_training(box):
    box.plan(reading(100, 100, memory=53))
    done = box.fast(*box.until_calls(9))
    assert (done.code, "WARNING" in done.err) == (0, False)


def test_the_class_gives_the_exit_code_and_leaves_the_callers_other_children_alone(box, monkeypatch):
    monkeypatch.setenv("PATH", box.env["PATH"])
    box.plan(reading(90, 90))
    other = subprocess.Popen(["sh", "-c", "exit 9"])
    watcher = gpu_idle_timeout.IdleGpuWatcher(1, 0.1, 3, 0)
    assert watcher.watch_process(["sh", "-c", "sleep 0.5; exit 7"]) == 7
    assert other.wait(timeout=60) == 9
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


@pytest.mark.parametrize("version", ["3.7", "3.8", "3.9", "3.13"])
def test_it_runs_on_other_pythons(box, version):
    found = shutil.which(f"python{version}", path=os.environ.get("RUNWARD_TEST_PYTHONS", os.environ["PATH"]))
    if (
        found is None
        or subprocess.run([found, "-V"], capture_output=True, check=False, timeout=60).returncode
    ):
        pytest.skip(f"no python{version} here")
    box.python = found
    done = box.fast("sleep", "300")
    assert (done.code, done.lines[-1]) == (1, STILL)
