"""Run a training on real GPUs into a known state, watch it with Runward's own parts, and keep what was seen.

    PYTHONPATH=src python3 tools/gpu_scenarios/record.py --group one|two --out FOLDER

Writes FOLDER/<scenario>/{telemetry.jsonl,verdicts.jsonl,about.md,train.log,kernel.log,result.json}.
Changes no setting of a GPU and ends only what it started.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import psutil

from runward.core import given_back, gpu_idle, gpu_ownership, gpu_signature, gpus, hang, stacks
from runward.probes import stacks as spy
from runward.probes.gpu import claims
from runward.runners import local
from runward.wiring import clock
from runward.wiring import gpus as wiring

HERE = pathlib.Path(__file__).resolve().parent
TRAIN = str(HERE / "train.py")
STEP = re.compile(rb"iteration +(\d+)/.*step ms: ([\d.]+)")
IDLE = gpu_idle.IdleRule(after_s=15.0, below_pct=2.0, grace_s=12.0)


@dataclasses.dataclass
class Scenario:
    name: str
    fault: str
    seconds: float
    ranks: int = 1
    at: int = 300
    extra: tuple[str, ...] = ()
    expect: str = ""


ONE = [
    Scenario("healthy_one", "none", 25, expect="kind none"),
    Scenario("idle_one", "idle", 40, expect="idle; kind none or hang, not end"),
    Scenario("loader_bound_one", "loader", 30, at=0, extra=("--every", "2"), expect="not idle, kind none"),
    Scenario("cuda_oom_one", "oom", 30, expect="exit 1, OutOfMemoryError"),
    Scenario("illegal_access_one", "illegal", 40, expect="exit not 0, Xid 31"),
    Scenario("device_assert_one", "assert", 30, expect="exit not 0, Xid 43"),
]
TWO = [
    Scenario("healthy_two", "none", 30, 2, expect="kind none"),
    Scenario(
        "hang_collective_two", "hang_rank", 75, 2, expect="hang reported within 30 s + look, names rank 1"
    ),
    Scenario("hang_everywhere_two", "hang_all", 125, 2, expect="hang reported after 90 s"),
    Scenario(
        "rank_0_saves_two", "save", 60, 2, expect="waits: rank 0 busy, not ended", extra=("--seconds", "40")
    ),
    Scenario("rank_0_evaluates_two", "evaluate", 60, 2, expect="waits, not ended", extra=("--seconds", "40")),
    Scenario("killed_rank_two", "kill_rank", 40, 2, expect="exit 1"),
    Scenario("deaf_tree_two", "deaf", 45, 2, expect="whole tree ended, memory given back"),
]


class Watch:
    """Everything that is looked at, once a second."""

    def __init__(self, folder, process, source):
        self.folder, self.process, self.source = folder, process, source
        self.begun = time.monotonic()
        self.windows = {}
        self.steps, self.step_ms, self.step_at = 0, [], None
        self.io_at_progress, self.cpu_at_progress, self.dumps = {}, {}, {}
        self.idle = gpu_idle.start(self.begun)
        self.last_word = None
        self.spy = spy.PySpy(local.Local(), clock.SystemClock())
        self.files = {n: (folder / f"{n}.jsonl").open("w") for n in ("telemetry", "verdicts")}
        self.tree = {}

    def tick(self):
        now = time.monotonic()
        self.look_tree()
        self.read_log(now)
        reading = self.source.look(slow=int(now - self.begun) % 5 == 0)
        row = {"t": round(now - self.begun, 2), "step": self.steps}
        if isinstance(reading, gpus.GpusUnseen):
            self.put("telemetry", {**row, "unseen": reading.why})
            return None
        for sample in reading.samples:
            self.windows.setdefault(sample.uuid, []).append(sample)
            del self.windows[sample.uuid][:-15]
        more = self.judge(now, reading)
        self.put("telemetry", {**row, **more, "gpus": [compact(s) for s in reading.samples]})
        return reading

    def put(self, name, row):
        self.files[name].write(self.renamed(json.dumps(row)) + "\n")
        self.files[name].flush()

    def renamed(self, text):
        """Hardware has serial names that do not belong into a repository."""
        for number, uuid in enumerate(self.windows):
            text = text.replace(uuid, f"GPU-{number}")
        return anonymous(text)

    def look_tree(self):
        try:
            root = psutil.Process(self.process.pid)
            self.tree = {p.pid: p for p in [root, *root.children(recursive=True)]}
        except psutil.NoSuchProcess:
            pass

    def read_log(self, now):
        data = (self.folder / "train.log").read_bytes()
        found = STEP.findall(data)
        if found and int(found[-1][0]) != self.steps:
            self.steps, self.step_at = int(found[-1][0]), now
            self.step_ms = [float(ms) for _, ms in found]
            self.io_at_progress = {pid: moved(pid) for pid in self.tree}
            self.cpu_at_progress = {pid: (now, cpu(pid)) for pid in self.tree}
            self.dumps.clear()

    def ranks(self, reading, owned):
        """Ranks by their process on a GPU."""
        found = []
        samples = [s for s in reading.samples if s.uuid in owned.own]
        for sample in samples:
            pids = [p.pid for p in sample.processes or () if p.pid in self.tree]
            pid = pids[0] if pids else None
            rank = rank_of(pid) if pid else None
            found.append((sample, pid, rank))
        return found

    def judge(self, now, reading):
        owned = gpu_ownership.own(reading, claims.of_tree(list(self.tree)))
        silent = now - self.step_at if self.step_at else None
        ranks, seen = [], []
        for sample, pid, rank in self.ranks(reading, owned):
            if pid and silent and silent > 12:
                self.dump(pid, now)
            ranks.append(
                hang.Rank(
                    rank,
                    "node-a",
                    str(sample.index),
                    gpu_signature.look(self.windows[sample.uuid]),
                    stacks.compare(self.dumps.get(pid, ())),
                    io_since(self.io_at_progress, pid),
                    cores_since(self.cpu_at_progress, pid, now),
                )
            )
            one = ranks[-1]
            seen.append(
                {
                    "rank": rank,
                    "gpu": sample.index,
                    "stack": [str(one.stack.sameness), anonymous(one.stack.text)],
                    "moved_bytes": one.moved_bytes,
                    "cpu_cores": one.cpu_cores,
                }
            )
        p99 = sorted(self.step_ms)[int(len(self.step_ms) * 0.99)] / 1e3 if self.step_ms else None
        facts = hang.Facts(
            ranks, silent, p99, longest_phase_s=20.0, seen_evaluation=True, seen_checkpoint=True
        )
        verdict = hang.judge(facts)
        util = {s.uuid: s.get("util_pct") for s in reading.samples if s.uuid in owned.own}
        self.idle = gpu_idle.observe(self.idle, IDLE, now, util)
        idle = gpu_idle.judge(self.idle, IDLE, frozenset(owned.own), self.step_at)
        word = (str(verdict.kind), idle.idle, tuple(sorted(owned.own)), owned.unknown)
        if word != self.last_word:
            self.last_word = word
            self.put(
                "verdicts",
                {
                    "t": round(now - self.begun, 2),
                    "silent_s": silent,
                    "p99_step_s": p99,
                    "kind": str(verdict.kind),
                    "summary": verdict.summary,
                    "votes": [[v.witness, str(v.cast), v.text] for v in verdict.votes],
                    "not_ended": list(verdict.not_ended),
                    "idle": idle.idle,
                    "idle_reason": idle.reason,
                    "own": dict(owned.own),
                    "unknown": owned.unknown,
                    "without_process": list(owned.without_process),
                },
            )
        return {
            "silent_s": silent,
            "p99_step_s": p99,
            "ranks": seen,
            "kind": str(verdict.kind),
            "idle": idle.idle,
            "own": sorted(s.index for s in reading.samples if s.uuid in owned.own),
        }

    def dump(self, pid, now):
        taken = self.dumps.setdefault(pid, [])
        if not taken or now - taken[-1].at >= 10:
            taken.append(self.spy.dump(pid))
            del taken[:-4]


KEPT = ("util_pct", "mem_util_pct", "power_w", "power_limit_w", "sm_clock_mhz", "temp_c", "mem_used_mib")


def compact(sample):
    """What a replay needs."""
    return {
        "index": sample.index,
        "values": {n: round(sample.values[n], 1) for n in KEPT if n in sample.values},
        "absent": {n: why for n, why in sample.absent.items() if n in KEPT},
        "pids": None if sample.processes is None else [p.pid for p in sample.processes],
    }


def anonymous(text):
    return (
        text.replace(str(HERE), "tools/gpu_scenarios")
        .replace(sys.prefix, "/venv")
        .replace(os.uname().nodename, "node-a")
    )


def rank_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = dict(p.partition(b"=")[::2] for p in file.read().split(b"\0"))
        return int(pairs.get(b"RANK", b"0"))
    except (OSError, ValueError):
        return None


def moved(pid):
    try:
        counters = psutil.Process(pid).io_counters()
        return counters.read_chars + counters.write_chars
    except (psutil.Error, OSError):
        return None


def cpu(pid):
    try:
        return sum(psutil.Process(pid).cpu_times()[:2])
    except psutil.Error:
        return None


def cores_since(before, pid, now):
    then, used = before.get(pid, (now, None))
    current = cpu(pid) if pid else None
    return None if used is None or current is None or now - then < 5 else (current - used) / (now - then)


def io_since(before, pid):
    now = moved(pid) if pid else None
    return None if now is None or before.get(pid) is None else now - before[pid]


def command(scenario):
    argv = [TRAIN, "--fault", scenario.fault, "--at", str(scenario.at), *scenario.extra]
    if scenario.ranks > 1:
        launch = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={scenario.ranks}",
        ]
    else:
        launch = [sys.executable]
    return [*launch, *argv]


def kernel_lines():
    done = subprocess.run(["dmesg"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def end_tree(watch):
    """SIGTERM to the root, 5 s, then SIGKILL to all that was ever seen of the tree."""
    watch.look_tree()
    tree = list(watch.tree.values())
    if watch.process.poll() is None:
        watch.process.send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs(tree, timeout=5)
    for process in alive:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(alive, timeout=30)
    return [p.pid for p in alive]


def run(scenario, out, source):
    folder = out / scenario.name
    folder.mkdir(parents=True)
    before = source.look(slow=True)
    kernel = len(kernel_lines())
    env = {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "TORCH_NCCL_ENABLE_MONITORING": "0",
        "RUNWARD_ATTEMPT": f"{scenario.name}/1/x",
    }
    argv = command(scenario)
    begun = time.monotonic()
    with (folder / "train.log").open("wb") as log:
        process = subprocess.Popen(
            argv, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    watch = Watch(folder, process, source)
    while time.monotonic() - begun < scenario.seconds and process.poll() is None:
        started = time.monotonic()
        watch.tick()
        time.sleep(max(0.0, 1 - (time.monotonic() - started)))
    code = process.poll()
    left = end_tree(watch)
    back = give_back(source, before, watch)
    lines = [line for line in kernel_lines()[kernel:] if "Serial" not in line and "GPU-" not in line]
    (folder / "kernel.log").write_text("\n".join(lines) + "\n")
    log = (folder / "train.log").read_text("utf-8", "replace")
    (folder / "train.log").write_text(anonymous(log))
    result = {
        "scenario": dataclasses.asdict(scenario),
        "exit": code,
        "ran_s": round(time.monotonic() - begun, 1),
        "steps": watch.steps,
        "left_alive": left,
        "given_back": dataclasses.asdict(back),
        "step_ms_median": sorted(watch.step_ms)[len(watch.step_ms) // 2] if watch.step_ms else None,
    }
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    names = [s.name for s in getattr(before, "samples", ())]
    (folder / "about.md").write_text(
        f"# {scenario.name}\n\nRecorded on {len(names)} x {names[0] if names else 'unknown'}, driver "
        f"{getattr(before, 'driver', '')}; sampled once a second. Expected: {scenario.expect}.\n"
    )
    for name in ("checkpoint.tmp", "checkpoint.pt"):
        (folder / name).unlink(missing_ok=True)
    for file in watch.files.values():
        file.close()
    last = (folder / "verdicts.jsonl").read_text().splitlines()
    kinds = [(json.loads(row)["t"], json.loads(row)["kind"], json.loads(row)["idle"]) for row in last]
    print(
        f"{scenario.name}: exit {code} steps {watch.steps} back {back.free} left {left} verdicts {kinds}",
        flush=True,
    )


def give_back(source, before, watch):
    mib = {s.uuid: s.get("mem_used_mib") or 0.0 for s in getattr(before, "samples", ())}
    expected = given_back.Expected(frozenset(mib), mib, list(watch.tree))
    begun = time.monotonic()
    while True:
        found = given_back.judge(expected, source.look(slow=True), time.monotonic() - begun)
        if found.free or found.over:
            return found
        time.sleep(0.5)


def idle_timeout(out):
    """The one-file command over the real nvidia-smi: an idle command is killed, with its tree."""
    script = HERE.parents[1] / "src/runward/compat/gpu_idle_timeout.py"
    argv = [sys.executable, "-I", str(script), "-t", "5", "-s", "1", "-n", "6", "-d", "8", "-x"]
    argv += [sys.executable, TRAIN, "--fault", "idle", "--at", "50"]
    begun = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=90, check=False)
    folder = out / "gpu_idle_timeout"
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_text(done.stderr)
    print(f"gpu_idle_timeout: exit {done.returncode} after {time.monotonic() - begun:.1f} s", flush=True)
    print("\n".join(done.stderr.splitlines()[-3:]), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--group", choices=("one", "two"), required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    source = wiring.open_here()
    print("source:", source.source.name, flush=True)
    for scenario in ONE if args.group == "one" else TWO:
        if args.only and scenario.name not in args.only.split(","):
            continue
        try:
            run(scenario, args.out, source)
        except Exception as error:
            print(f"{scenario.name}: recorder failed: {error!r}", flush=True)
    if args.group == "one" and not args.only:
        idle_timeout(args.out)
    source.close()


if __name__ == "__main__":
    main()
