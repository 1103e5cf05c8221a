"""Measures what watching costs and how fast a death is answered; prints a table and leaves bench.json.

usage: bench.py [--seconds 180] [--json bench.json] [--only start,death,idle,flat,growing,steps,far,slurm,ray]
A missed limit is marked in the table and fails nothing: a shared box has its days. CPU time is the steadier figure.
"""

import argparse
import contextlib
import datetime as dt
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import bench_logs
import bench_ray

ROOT = pathlib.Path(__file__).parents[1]
PYTHON = sys.executable
DYING = """
import os, sys, time, zipfile
n = int(os.environ["RUNWARD_RESUME_STEP"] or 0) + 1
print(f"step {n}/1000 loss 0.5", flush=True)
with zipfile.ZipFile(f"ckpt/step_{n}.tmp", "w") as z: z.writestr("w", "x" * 1000)
os.rename(f"ckpt/step_{n}.tmp", f"ckpt/step_{n}.ckpt")
time.sleep(1.5)
open("deaths", "a").write(f"{time.time()}\\n")
os.kill(os.getpid(), 9)
"""
PRINTING = """
import sys, time
rate, end = float(sys.argv[1]), time.monotonic() + float(sys.argv[2])
n = 0
began = time.monotonic()
while time.monotonic() < end:
    n += 1
    print(f"step {n}/1000000 loss 0.5", flush=True)
    time.sleep(max(0.0, began + n / rate - time.monotonic()))
"""
STEPPING = """
import json, os, signal, sys, time
blocks, dropped, length = int(sys.argv[1]), 5, 50
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
while not os.path.exists("victim"): time.sleep(0.05)
time.sleep(1)
victim = int(open("victim").read())
def work():
    total = 0
    for i in range(60000): total += i * i
    return total
def segment(on):
    os.kill(victim, signal.SIGCONT if on else signal.SIGSTOP)
    times = []
    for i in range(length):
        t = time.perf_counter()
        work()
        print(f"step {i}/1000000 loss 0.5", flush=True)
        times.append(time.perf_counter() - t)
    return sum(times[dropped:]) / (length - dropped)
ratios = []
for _ in range(blocks):
    a, b, c, d = segment(True), segment(False), segment(False), segment(True)
    ratios.append((a + d) / (b + c))
os.kill(victim, signal.SIGCONT)
json.dump(ratios, open("ratios.new", "w"))
os.rename("ratios.new", "ratios.json")
"""


class Place:
    """A state and a working directory of one measurement."""

    def __init__(self) -> None:
        self._dir = tempfile.TemporaryDirectory(prefix="runward-bench-")
        self.work = pathlib.Path(self._dir.name)
        (self.work / "ckpt").mkdir()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("RUNWARD_")}
        self.env |= {"RUNWARD_STATE_DIR": str(self.work / "state"), "PYTHONPATH": str(ROOT / "src")}

    def runward(self, *args: str, quiet: bool = True) -> subprocess.CompletedProcess:
        out = subprocess.DEVNULL if quiet else None
        return subprocess.run(
            [PYTHON, "-m", "runward", *args], env=self.env, cwd=self.work, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=out, text=True, check=False,
        )  # fmt: skip

    def status(self) -> dict:
        return json.loads(self.runward("status", "bench", "--json").stdout)

    def events(self) -> list[dict]:
        return [json.loads(line) for line in self.runward("events", "bench", "--json").stdout.splitlines()]

    def close(self) -> None:
        self.runward("stop", "bench", "--now")
        self._dir.cleanup()


def spread(values: list[float]) -> dict:
    return {"n": len(values), "min": min(values), "median": statistics.median(values), "max": max(values)}


# -- start-up ----------------------------------------------------------------------------------------------------


def instant(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()


def start_up(rounds: int) -> dict:
    """Wall and CPU milliseconds of each command, taken in turn, so that a busy moment hits all of them."""
    commands = {
        "python -c pass": [PYTHON, "-c", "pass"],
        "runward --help": [PYTHON, "-m", "runward", "--help"],
        "runward ps": [PYTHON, "-m", "runward", "ps"],
    }
    place = Place()
    place.runward("run", "--name", "bench", "--", "true")
    wall: dict[str, list[float]] = {name: [] for name in commands}
    cpu: dict[str, list[float]] = {name: [] for name in commands}
    rss: dict[str, float] = {}
    for _ in range(rounds):
        for name, argv in commands.items():
            began = time.perf_counter()
            child = subprocess.Popen(argv, env=place.env, cwd=place.work, stdout=subprocess.DEVNULL)
            _, _, usage = os.wait4(child.pid, 0)
            child.returncode = 0
            wall[name].append((time.perf_counter() - began) * 1000)
            cpu[name].append((usage.ru_utime + usage.ru_stime) * 1000)
            rss[name] = usage.ru_maxrss / 1024
    place.close()
    bare_wall, bare_cpu = (statistics.median(x["python -c pass"]) for x in (wall, cpu))
    return {
        name: {
            "wall_ms": spread(wall[name]),
            "cpu_ms": spread(cpu[name]),
            "rss_mb": rss[name],
            "times_bare_wall": statistics.median(wall[name]) / bare_wall,
            "times_bare_cpu": statistics.median(cpu[name]) / bare_cpu,
        }
        for name in commands
    }


# -- death -------------------------------------------------------------------------------------------------------


def deaths(seconds: float) -> dict:
    """Milliseconds from the SIGKILL to the decision in the journal, and until the next attempt is exec'd."""
    place = Place()
    policy = place.work / "always.yaml"
    policy.write_text(
        "kind: policy\nversion: 1\nbudget: {without_progress: 1000, per_day: 1000}\n"
        "backoff: {first: 0s, base: 0s}\nrules:\n  - {action: restart}\n"
    )
    place.runward(
        "run", "--name", "bench", "--checkpoints", "ckpt", "--resume-by", "env", "--policy", str(policy), "--detach",
        "--", PYTHON, "-S", "-c", DYING,
    )  # fmt: skip
    time.sleep(seconds)
    place.runward("stop", "bench", "--now")
    died = [float(line) for line in (place.work / "deaths").read_text().split()]
    decided = {e["attempt"]: instant(e["at"]) for e in place.events() if e["kind"] == "decided"}
    began = {e["attempt"]: instant(e["at"]) for e in place.events() if e["kind"] == "attempt_started"}
    place.close()
    to_decision = [(decided[n] - at) * 1000 for n, at in enumerate(died, 1) if n in decided]
    to_exec = [(began[n + 1] - at) * 1000 for n, at in enumerate(died, 1) if n + 1 in began]
    return {"to_decision_ms": spread(to_decision), "to_exec_ms": spread(to_exec)}


# -- the price of watching ---------------------------------------------------------------------------------------


def price(rate: float, seconds: float) -> dict:
    """CPU, memory and wake-ups of a detached watcher and a keeper; the command prints `rate` lines a second."""
    place = Place()
    command = [PYTHON, "-c", PRINTING, str(rate), str(seconds + 30)]
    place.runward("run", "--name", "bench", "--checkpoints", "ckpt", "--detach", "--", *command)
    time.sleep(3)
    status = place.status()
    pids = {"watcher": status["watcher"]["pid"], "keeper": status["attempts"][0]["keeper"]["pid"]}
    before = {name: _usage(pid) for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    after = {name: _usage(pid) for name, pid in pids.items()}
    place.close()
    result = {
        name: {
            "cpu_percent": 100 * (after[name]["cpu_s"] - before[name]["cpu_s"]) / took,
            "wakeups_per_s": (after[name]["switches"] - before[name]["switches"]) / took,
            "rss_mb": after[name]["rss_mb"],
        }
        for name in pids
    }
    result["together"] = {key: sum(result[name][key] for name in pids) for key in result["watcher"]}
    return result


def _usage(pid: int) -> dict:
    """Of a process and all its threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    switches = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                switches += int(line.split()[1])
    rss = next(
        int(line.split()[1])
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return {"cpu_s": cpu, "switches": switches, "rss_mb": rss / 1024}


# -- an hour of log ----------------------------------------------------------------------------------------------


def flat(lines: int) -> dict:
    """An hour of log at 1,000 lines a second, read as fast as it goes: CPU and memory of its first and last tenth."""
    place = Place()
    code = (
        "import sys; sys.path.insert(0, sys.argv[2] + '/tools'); import bench;"
        "bench.read_hour(int(sys.argv[1]))"
    )
    done = subprocess.run(
        [PYTHON, "-c", code, str(lines), str(ROOT)],
        env=place.env,
        cwd=place.work,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    place.close()
    return json.loads(done.stdout)


def read_hour(lines: int) -> None:
    """In a process of its own: one more piece of log a tick, then a tick."""
    from runward.app import following
    from runward.core import progress, stall
    from runward.wiring import clock, diagnose

    path = pathlib.Path("hour.log")
    clocks = clock.SystemClock()
    standing = following.Standing(progress.Tracker(), stall.begin(0.0))
    follower = following.Follower(diagnose.engine(), lambda: [stream], clocks, standing)
    stream = _File(path)
    tenths, piece = [], 10_000
    with path.open("a") as out:
        for tenth in range(10):
            used = 0.0
            for start in range(tenth * lines // 10, (tenth + 1) * lines // 10, piece):
                out.writelines(
                    f"step {n}/{lines} loss 0.{n % 1000:03d} lr 1e-4\n" for n in range(start, start + piece)
                )
                out.flush()
                began = time.process_time()
                while follower.advance():
                    pass
                used += time.process_time() - began
            rss = (
                int(pathlib.Path("/proc/self/statm").read_text().split()[1])
                * resource.getpagesize()
                / (1 << 20)
            )
            tenths.append({"us_a_line": used / (lines / 10) * 1e6, "rss_mb": rss})
    print(json.dumps({"lines": lines, "first": tenths[1], "last": tenths[-1], "tenths": tenths}))


class _File:
    """A growing file as a log stream."""

    rank = None

    def __init__(self, path: pathlib.Path) -> None:
        self.name, self._file = str(path), None
        self._path, self._at = path, 0

    def read_new(self, budget: int) -> list:
        from runward import ports

        self._file = self._file or self._path.open("rb")
        data = self._file.read(budget)
        self._at += len(data)
        return [ports.Chunk(self._at - len(data), data)] if data else []


# -- a log that grows by a line ----------------------------------------------------------------------------------


class _Still:
    """A clock that nobody reads."""

    def wall(self) -> float:
        return 0.0

    def mono(self) -> float:
        return 0.0


def growing(polls: int, megabytes: int = 60) -> dict:
    """CPU time of a poll of a long log that has grown by one line: signals of a monitoring preset, and reading it anew.

    Reading anew is what monitors do that keep the text they saw and look for what is behind it.
    """
    from runward.app import signalling
    from runward.config import autoexp_files
    from runward.core import log_matching, log_signals
    from runward.runners import local
    from runward.scan import tailer

    line = (
        " [2026-01-01 00:00:{:02d}] iteration {:8d}/ 1000000 | consumed samples: {:12d} | elapsed time per iteration "
        "(ms): 1003.1 | learning rate: 1.0E-04 | global batch size: 256 | lm loss: 2.5E+00 | grad norm: 0.2 | "
        "number of skipped iterations: 0 | number of nan iterations: 0 |\n"
    )
    with tempfile.TemporaryDirectory(prefix="runward-bench-") as folder:
        log = pathlib.Path(folder) / "train.log"
        with log.open("w") as file:
            i = 0
            while file.tell() < megabytes << 20:
                file.writelines(line.format(n % 60, n, n * 256) for n in range(i, i + 1000))
                i += 1000
        monitor = autoexp_files.monitoring("megatron_production")
        matcher = log_matching.Matcher(monitor.signals)
        streams = [tailer.FileLog(str(log), look_s=0.0)]
        means = signalling.Means(monitor, lambda _: streams, local.Local(), _Still(), folder, folder)
        ours = signalling.Signalling(means)
        ours._take_up("1@0", 1)

        def look() -> None:
            while ours._advance(ours._attempt):
                pass

        seen = log.read_text("utf-8", "ignore")

        def anew() -> None:
            nonlocal seen
            text = log.read_text("utf-8", "ignore")
            new = text[len(seen) :] if text.startswith(seen) else text
            seen = text
            for one in new.splitlines():
                list(matcher.line(one))

        found = {"megabytes": megabytes, "polls": polls}
        for name, poll in (("ours", look), ("anew", anew)):
            began = time.thread_time()
            poll()
            first = time.thread_time() - began
            took = []
            for n in range(polls):
                with log.open("a") as file:
                    file.write(line.format(n % 60, i + n, 0))
                began = time.thread_time()
                poll()
                took.append((time.thread_time() - began) * 1e3)
            found[name] = {"first_s": first, "poll_ms": statistics.median(took)}
        found["ratio"] = found["anew"]["poll_ms"] / found["ours"]["poll_ms"]
    return found


# -- step time ---------------------------------------------------------------------------------------------------


def step_time(blocks: int) -> dict:
    """Step time with the watcher awake over that with it stopped, ABBA; beside it the same with nothing switched."""
    watched = _ratios(blocks, control=False)
    control = _ratios(blocks, control=True)
    return {"watched": watched, "control": control, "box_quiet_enough": control["upper"] < 1.006}


def _ratios(blocks: int, *, control: bool) -> dict:
    place = Place()
    place.runward("run", "--name", "bench", "--detach", "--", PYTHON, "-c", STEPPING, str(blocks))
    dummy = subprocess.Popen(["sleep", "3600"]) if control else None
    pid = dummy.pid if dummy else place.status()["watcher"]["pid"]
    (place.work / "victim.new").write_text(str(pid))
    os.rename(place.work / "victim.new", place.work / "victim")
    deadline = time.monotonic() + blocks * 20 + 60
    while not (place.work / "ratios.json").exists() and time.monotonic() < deadline:
        time.sleep(0.5)
    logs = [math.log(ratio) for ratio in json.loads((place.work / "ratios.json").read_text())]
    if dummy is not None:
        dummy.kill()
        dummy.wait()
    place.close()
    half = 1.96 * statistics.stdev(logs) / math.sqrt(len(logs))
    mean = statistics.fmean(logs)
    return {
        "blocks": len(logs),
        "ratio": math.exp(mean),
        "lower": math.exp(mean - half),
        "upper": math.exp(mean + half),
    }


# -- far boxes ---------------------------------------------------------------------------------------------------

STAND_IN = """#!/bin/sh
# Answers as a box at once; a host whose name begins with `hole` swallows packets until its ConnectTimeout.
for word in "$@"; do case $word in ConnectTimeout=*) limit=${word#*=} ;; esac; last=$word; done
case $* in *" -- hole"*)
  sleep "$limit"; echo 'ssh: connect to host hole port 22: Connection timed out' >&2; exit 255 ;;
esac
mark=runward-$(printf %s "$last" | sed 's/.*runward-\\([0-9a-f]\\{16\\}\\).*/\\1/')
cat >/dev/null
printf '%s\\n== runward probe 1 begins ==\\nnow=1\\nboot_id=b\\nproc=1\\n' "$mark"
printf 'tmux=0\\nmount.4.bytes=/dev/a 10 5 5 50%% /\\n== runward probe 1 ends ==\\n'
printf '%s\\n%s-end\\n' "$mark" "$mark" >&2
"""


def far_boxes(rounds: int) -> dict:
    """Patrols through a stand-in for ssh: CPU milliseconds for one box, seconds for 100 of which 3 are silent."""
    place = Place()
    program = place.work / "bin"
    program.mkdir()
    (program / "ssh").write_text(STAND_IN)
    (program / "ssh").chmod(0o755)
    place.env["PATH"] = f"{program}:{place.env['PATH']}"
    cpu, help_cpu = [], []
    for _ in range(rounds):
        for argv, kept in ((["patrol", "ssh:one/", "--no-gpus"], cpu), (["--help"], help_cpu)):
            child = subprocess.Popen(
                [PYTHON, "-m", "runward", *argv],
                env=place.env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            _, _, usage = os.wait4(child.pid, 0)
            child.returncode = 0
            kept.append((usage.ru_utime + usage.ru_stime) * 1000)
    names = [f"ssh:box{i}/" for i in range(97)]
    names[40:40] = [f"ssh:hole{i}/" for i in range(3)]
    began = time.perf_counter()
    argv = [PYTHON, "-m", "runward", "patrol", *names, "--no-gpus", "--json"]
    process = subprocess.Popen(argv, env=place.env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    times = [time.perf_counter() - began for _ in process.stdout]
    process.wait()
    ended = time.perf_counter() - began
    place.close()
    return {
        "one_box_cpu_ms": spread(cpu),
        "help_cpu_ms": spread(help_cpu),
        "answered": len(times),
        "last_that_answers_s": times[96] if len(times) == 100 else math.inf,
        "tick_s": ended,
    }


# -- all of it ---------------------------------------------------------------------------------------------------


# -- slurm -------------------------------------------------------------------------------------------------------

LOOKING = """
import json, os, resource, sys, time
from runward.backends.slurm import backend, commands
from runward.core import job
from runward.runners import local
from runward.scan import tailer
count, looks, every = int(sys.argv[1]), int(sys.argv[2]), 60.0
now = [0.0]
settings = backend.Settings(every_s=0.9 * every, patience_s=120.0)
means = backend.Means(commands.Commands(local.Local(), os.environ), tailer.FileLog, settings, lambda: now[0])
slurm = backend.Slurm(means)
handles = [f"{n}@0" for n in range(1, count + 1)]
def look():
    now[0] += every
    slurm.poll(handles[:1])
    if slurm.looker.thread is not None: slurm.looker.thread.join()
    for handle in handles:  # as each run asks for its own job
        found = slurm.poll([handle])[handle]
        assert isinstance(found, job.JobStatus) and found.word == "RUNNING", found
slurm.looker.watch([str(n) for n in range(1, count + 1)])
look()
before, asked = resource.getrusage(resource.RUSAGE_SELF), slurm.queries
for _ in range(looks): look()
used = resource.getrusage(resource.RUSAGE_SELF)
cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps({"cpu_percent": 100 * cpu / looks / every, "rss_mb": used.ru_maxrss / 1024,
                  "queries_a_look": (slurm.queries - asked) / looks, "cpu_s_a_look": cpu / looks}))
"""


def slurm(count: int) -> dict:
    """What one look at `count` jobs costs the backend, with a squeue that prints them; squeue itself not counted."""
    sys.path.insert(0, str(ROOT / "src"))
    from runward.backends.slurm import records

    place = Place()
    known = {
        "State": "RUNNING",
        "RestartCnt": "0",
        "exit_code": "0",
        "NodeList": "n1",
        "WorkDir": "/home/ann/runs",
    }
    known |= {
        "UserID": str(os.getuid()),
        "Name": "train",
        "StartTime": "2026-01-01T00:00:00",
        "TimeLimit": "1-00:00:00",
    }
    known |= {"STDOUT": "/home/ann/runs/log-%j.txt", "STDERR": "/home/ann/runs/log-%j.txt"}
    lines = []
    for n in range(1, count + 1):
        row = {**known, "JobArrayID": str(n), "JobID": str(n), "Comment": f"run-{n}-1-0a1b2c3d"}
        lines.append(
            "".join(f"{row.get(field, '(null)')}{records.SEPARATOR}" for field in records.SQUEUE_FIELDS)
        )
    (place.work / "rows").write_text("\n".join(lines) + "\n")
    fake = place.work / "squeue"
    fake.write_text(f"#!/bin/sh\nexec cat {place.work}/rows\n")
    fake.chmod(0o755)
    env = {**place.env, "PATH": f"{place.work}:{place.env['PATH']}"}
    done = subprocess.run(
        [PYTHON, "-c", LOOKING, str(count), "5"], env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    place.close()
    return json.loads(done.stdout)


def rows(found: dict) -> list[tuple[str, float, float, str]]:
    """(what, figure, limit, unit)."""
    table = []
    for name in ("runward --help", "runward ps"):
        if one := found.get("start", {}).get(name):
            table.append((f"{name}: wall, median", one["wall_ms"]["median"], 150, "ms"))
            table.append((f"{name}: times python -c pass", one["times_bare_wall"], 8, "x"))
            table.append((f"{name}: memory", one["rss_mb"], 40, "MB"))
    if one := found.get("death"):
        table.append(("crash to decision, median", one["to_decision_ms"]["median"], 50, "ms"))
        table.append(("crash to exec, median", one["to_exec_ms"]["median"], 150, "ms"))
    for rate, one in found.get("idle", {}).items():
        table.append((f"watcher and keeper at {rate} lines/s: CPU", one["together"]["cpu_percent"], 0.5, "%"))
        table.append((f"watcher and keeper at {rate} lines/s: memory", one["together"]["rss_mb"], 60, "MB"))
        table.append(
            (f"watcher and keeper at {rate} lines/s: wake-ups", one["together"]["wakeups_per_s"], 30, "/s")
        )
    if one := found.get("flat"):
        slower = one["last"]["us_a_line"] / one["first"]["us_a_line"]
        table.append(("an hour of log: CPU a line, last tenth / second", slower, 1.2, "x"))
        table.append(
            ("an hour of log: memory gained", one["last"]["rss_mb"] - one["first"]["rss_mb"], 2, "MB")
        )
    if one := found.get("slurm"):
        table.append(("10,000 Slurm jobs, a look a minute: CPU", one["cpu_percent"], 5, "%"))
        table.append(("10,000 Slurm jobs: memory", one["rss_mb"], 250, "MB"))
        table.append(("10,000 Slurm jobs: queries a look", one["queries_a_look"], 1, ""))
    if one := found.get("ray"):
        table.append((f"{one['jobs']} Ray jobs, one watcher: CPU", one["cpu_percent"], 10, "%"))
        table.append((f"{one['jobs']} Ray jobs, one watcher: memory", one["rss_mb"], 300, "MB"))
        table.append((f"{one['jobs']} Ray jobs: lists asked for", one["lists_per_s"], 0.6, "/s"))
    if one := found.get("growing"):
        what = f"a log of {one['megabytes']} MB that grew by a line"
        table.append((f"{what}: CPU a poll", one["ours"]["poll_ms"], 1, "ms"))
        table.append((f"{what}: share of reading it anew", 1 / one["ratio"], 0.05, "x"))
    if one := found.get("logs"):
        table += bench_logs.rows(one)
    if one := found.get("steps"):
        table.append(("step time, upper end of 95 %", one["watched"]["upper"], 1.01, "x"))
        table.append(("   the same with nothing switched", one["control"]["upper"], 1.006, "x"))
    if one := found.get("far"):
        table.append(("patrol of one box: CPU, least", one["one_box_cpu_ms"]["min"], 150, "ms"))
        table.append(("100 boxes: the last that answers", one["last_that_answers_s"], 10, "s"))
        table.append(("100 boxes, 3 silent: the whole tick", one["tick_s"], 17, "s"))
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description="What watching costs, and how fast a death is answered.")
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--json", default="bench.json")
    parser.add_argument("--only", default="start,death,idle,flat,growing,steps,far,slurm,ray")
    args = parser.parse_args()
    share = args.seconds / 180.0
    benches = {
        "start": lambda: start_up(max(5, int(10 * share))),
        "death": lambda: deaths(25 * share),
        "idle": lambda: {str(rate): price(rate, 20 * share) for rate in (1, 1000)},
        "flat": lambda: flat(3_600_000 if share >= 1 else 360_000),
        "far": lambda: far_boxes(max(3, int(10 * share))),
        "ray": lambda: bench_ray.measure(500 if share >= 1 else 200, 20 * share),
        "growing": lambda: growing(max(5, int(20 * share))),
        "logs": lambda: bench_logs.measure(max(5, int(10 * share))),
        "steps": lambda: step_time(max(10, min(160, int(30 * share)))),
        "slurm": lambda: slurm(10_000),
    }
    found: dict = {"schema_version": 1, "load_before": os.getloadavg()}
    for name in args.only.split(","):
        found[name] = benches[name]()
    found["load_after"] = os.getloadavg()
    pathlib.Path(args.json).write_text(json.dumps(found, indent=1))
    for what, figure, limit, unit in rows(found):
        mark = "" if figure <= limit else "   over"
        with contextlib.suppress(BrokenPipeError):
            print(f"{what:<52} {figure:>9.3f} {unit:<3} limit {limit:g}{mark}")
    load = f"load average {found['load_before'][0]:.1f} before, {found['load_after'][0]:.1f} after"
    print(f"{load}; all figures in {args.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
