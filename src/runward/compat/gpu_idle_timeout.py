"""Launch a command, watch GPU use, and kill the command when its GPUs were idle for a whole window.

This is one file for Python 3.7 and newer with nothing but the standard library, so that it can be copied
into a container or a job's context and run there: `python3 ./gpu_idle_timeout.py -t 20 CMD ...`.
Only a full window of good readings kills; a failed, odd or missing reading is never taken for idleness.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Deque, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

logger = logging.getLogger("gpu_idle_timeout")

QUERY = ["nvidia-smi", "--format=csv,noheader", "--query-gpu=uuid,utilization.gpu"]
MEMORY_QUERY = ["nvidia-smi", "--format=csv,noheader", "--query-gpu=uuid,utilization.memory"]
READING = re.compile(r"^([A-Za-z0-9-]+), (\d+) %$")
NO_READING = re.compile(r"^([A-Za-z0-9-]+), (\[.*\]|N/A)$")

QUERY_DEADLINE_S = 10.0  # a query that takes longer than this (and than the sample period) is given up
SIGNAL_GRACE_S = 3.0  # between --signal-name and SIGKILL
KILL_WAIT_S = 10.0  # after SIGKILL; a process in uninterruptible sleep does not die
REST_GRACE_S = 5.0  # for what is left of the tree when the command ended after a forwarded signal
BUSY_CORES = 0.2  # a tree that uses this much CPU over the window is working
BUSY_BYTES_PER_S = 1024 * 1024  # ... or that reads and writes this much (starting small programs does less)
BUSY_LIMIT_S = 3600.0  # work beside idle GPUs puts a kill off for at most this long
SPINNING = 95  # percent: a rank that waits in a collective shows 100
FORWARDED = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")
ENDING = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM")
SI_KERNEL = 0x80  # the terminal sent this signal, to the command as well
PR_SET_CHILD_SUBREAPER = 36


class Proc(NamedTuple):
    """One line of the process table."""

    ppid: int
    state: str
    start: int
    cpu_ticks: int


class Activity(NamedTuple):
    """What a process tree has used so far."""

    cpu_s: float
    moved: int


def _read_proc(pid: int) -> Optional[Proc]:
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            data = file.read()
    except OSError:
        return None
    fields = data[data.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return Proc(int(fields[1]), fields[0].decode(), int(fields[19]), sum(int(f) for f in fields[11:15]))


def _processes() -> Dict[int, Proc]:
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            proc = _read_proc(int(name))
            if proc is not None:
                table[int(name)] = proc
    return table


def _layers(roots: Sequence[int], table: Dict[int, Proc]) -> List[List[int]]:
    """The descendants of `roots`, without them, nearest first."""
    children = collections.defaultdict(list)  # type: Dict[int, List[int]]
    for pid, proc in table.items():
        children[proc.ppid].append(pid)
    layers = []  # type: List[List[int]]
    layer, seen = list(roots), set(roots)
    while True:
        layer = [pid for parent in layer for pid in children[parent] if pid not in seen]
        if not layer:
            return layers
        seen.update(layer)
        layers.append(sorted(layer))


def _moved(pid: int) -> int:
    try:
        with open("/proc/%d/io" % pid, "rb") as file:
            pairs = dict(line.split(b": ") for line in file.read().splitlines())
        return int(pairs[b"rchar"]) + int(pairs[b"wchar"])
    except (OSError, ValueError, KeyError):
        return 0


def _command_line(pid: int) -> str:
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _send(pid: int, start: int, signum: int) -> None:
    """Signal a process if it is still the one that was seen: pids are used again."""
    proc = _read_proc(pid)
    if proc is None or proc.start != start or proc.state == "Z":
        return
    try:
        os.kill(pid, signum)
    except OSError:
        pass


class Tree:
    """The command and everything it started, also what was re-parented when that can be known."""

    def __init__(self, root: int, adopting: bool) -> None:
        self.root = root
        self.adopting = adopting
        self.strangers = set()  # type: Set[int]
        self._seen = {}  # type: Dict[int, int]

    def look(self) -> Dict[int, Proc]:
        """Processes of the tree that are alive, by pid. Remembers them, so that orphans are found again."""
        table = _processes()
        roots = [self.root] + [pid for pid, start in self._seen.items() if self._same(table, pid, start)]
        if self.adopting:
            me = os.getpid()
            roots += [p for p, proc in table.items() if proc.ppid == me and p not in self.strangers]
        pids = set(roots).union(*(_layers(roots, table) or [[]]))
        found = {pid: table[pid] for pid in pids if pid in table and pid not in self.strangers}
        self._seen = {pid: proc.start for pid, proc in found.items() if proc.state != "Z"}
        return {pid: proc for pid, proc in found.items() if proc.state != "Z"}

    @staticmethod
    def _same(table: Dict[int, Proc], pid: int, start: int) -> bool:
        return pid in table and table[pid].start == start

    def activity(self) -> Activity:
        """CPU seconds and bytes that the living have used, with their reaped children's CPU."""
        alive = self.look()
        ticks = sum(proc.cpu_ticks for proc in alive.values())
        return Activity(ticks / float(os.sysconf("SC_CLK_TCK")), sum(_moved(pid) for pid in alive))

    def signal(self, signum: int) -> None:
        """Signal every process of the tree."""
        for pid, proc in self.look().items():
            _send(pid, proc.start, signum)


class Query:
    """One run of nvidia-smi that nobody waits for: `done` says when it has ended."""

    def __init__(self, argv: List[str], mask: Set[int]) -> None:
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: _set_mask(mask),
        )
        self.pid = self._process.pid
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)

    def done(self) -> bool:
        """Whether it has ended. A given-up one counts when the kernel lets it go."""
        return self._process.poll() is not None

    def give_up(self) -> None:
        """Kill it, and do not wait: a query that hangs in the driver may never die."""
        self._process.kill()

    def close(self) -> None:
        """Let go of its output."""
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def lines(self) -> List[str]:
        """Its output. Raises RuntimeError when it failed."""
        out, err = self._take(self._process.stdout), self._take(self._process.stderr)
        code = self._process.returncode
        if code != 0:
            said = (err.strip() or out.strip()).splitlines()
            raise RuntimeError("nvidia-smi exited with code %s%s" % (code, ": " + said[0] if said else ""))
        return [line.strip() for line in out.splitlines() if line.strip()]

    @staticmethod
    def _take(stream: Optional[IO[bytes]]) -> str:
        if stream is None:
            return ""
        try:
            data = os.read(stream.fileno(), 1 << 20)
        except OSError:
            data = b""
        stream.close()
        return data.decode("utf-8", "replace")


def _set_mask(mask: Iterable[int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def parse_usage(lines: Sequence[str]) -> Dict[str, Optional[int]]:
    """Percent by UUID; None where the driver gives no number (`[N/A]`: MIG, vGPU, some drivers).

    Raises RuntimeError for anything else: an odd reading says nothing.
    """
    usage = {}  # type: Dict[str, Optional[int]]
    for line in lines:
        number, none = READING.match(line), NO_READING.match(line)
        if number and int(number.group(2)) <= 100:
            usage[number.group(1)] = int(number.group(2))
        elif none:
            usage[none.group(1)] = None
        else:
            raise RuntimeError("Unexpected output format: %s" % line)
    return usage


class Window:
    """The last readings of every GPU, and what they prove."""

    def __init__(self, threshhold: int, size: int) -> None:
        self.threshhold = threshhold
        self.size = size
        self._samples = {}  # type: Dict[str, Deque[Optional[int]]]

    def clear(self) -> None:
        self._samples.clear()

    def add(self, usage: Dict[str, Optional[int]]) -> None:
        """Take a reading. A GPU that is missing from it has no reading; after a window it is forgotten."""
        for uuid in usage:
            self._samples.setdefault(uuid, collections.deque(maxlen=self.size))
        for uuid in list(self._samples):
            samples = self._samples[uuid]
            samples.append(usage.get(uuid))
            if uuid not in usage and len(samples) == self.size and all(s is None for s in samples):
                del self._samples[uuid]

    def _all(self, uuid: str, low: int, high: int) -> bool:
        samples = self._samples[uuid]
        return len(samples) == self.size and all(s is not None and low <= s < high for s in samples)

    def idle(self, all_or_any: str) -> List[str]:
        """GPUs whose idleness is proven, if that suffices for a kill; else none."""
        idle = [uuid for uuid in self._samples if self._all(uuid, 0, self.threshhold)]
        if all_or_any == "all" and len(idle) != len(self._samples):
            return []
        return idle

    def spinning(self) -> List[str]:
        """GPUs that showed full use all the time, if every other GPU was idle; else none."""
        spinning = [uuid for uuid in self._samples if self._all(uuid, SPINNING, 101)]
        quiet = [uuid for uuid in self._samples if self._all(uuid, 0, max(self.threshhold, 2))]
        return spinning if len(spinning) + len(set(quiet) - set(spinning)) == len(self._samples) else []


class IdleGpuWatcher:
    """Launches a command and kills it, with everything it started, when its GPUs are idle."""

    def __init__(
        self,
        threshhold_percentage: int,
        sample_freq: float,
        num_samples: int,
        delay_samples: int,
        all_or_any: str = "all",
        signal_name: Optional[str] = None,
        signal_children: bool = False,
        adopt_orphans: bool = False,
    ) -> None:
        """`sample_freq` is the period in seconds. `signal_name` None: SIGQUIT, without a word about it.

        `adopt_orphans` makes the calling process the parent of whatever the command leaves behind; only a
        process that has no other children should ask for it. Raises RuntimeError without nvidia-smi.
        """
        if shutil.which("nvidia-smi") is None:
            raise RuntimeError("Unable to locate 'nvidia-smi'")
        self.threshhold_percentage = threshhold_percentage
        self.sample_freq = sample_freq
        self.num_samples = num_samples
        self.delay_samples = delay_samples
        self.window_size = sample_freq * num_samples
        self.all_or_any = all_or_any
        self.signal_name = signal_name
        self.signal_children = signal_children
        self.adopt_orphans = adopt_orphans
        self._window = Window(threshhold_percentage, num_samples)
        self._activity = collections.deque(maxlen=num_samples + 1)  # type: Deque[Tuple[float, Activity]]
        self._busy_since = None  # type: Optional[float]
        self._query = None  # type: Optional[Query]
        self._stuck = []  # type: List[Query]
        self._memory = False
        self._said = ("", 0.0)
        self._spin_said = float("-inf")
        self._ending = False

    def watch_process(self, exec_command_and_args: List[str]) -> int:
        """Exit code of the command (-N: signal N), or 1 when it was killed for idleness.

        Raises OSError when the command cannot be started.
        """
        logger.info(
            "Starting GPU idle watcher: threshhold_percentage=%s%%, sample_freq=%s, num_samples=%s, "
            "delay_samples=%s, window_size=%s",
            self.threshhold_percentage,
            self.sample_freq,
            self.num_samples,
            self.delay_samples,
            self.window_size,
        )
        if self.adopt_orphans:
            _become_subreaper()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited as ignored, it would hide exit codes
        caught = {
            getattr(signal, name)
            for name in FORWARDED
            if signal.getsignal(getattr(signal, name)) != signal.SIG_IGN
        }
        mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, caught | {signal.SIGCHLD}))
        try:
            process = subprocess.Popen(exec_command_and_args, preexec_fn=lambda: _set_mask(mask))
            tree = Tree(process.pid, self.adopt_orphans)
            try:
                return self._watch(process, tree, caught, mask)
            except BaseException:  # whatever it is, an interrupt too: no command is left behind unwatched
                tree.signal(signal.SIGKILL)
                raise
        finally:
            self._drop_queries()
            _set_mask(mask)

    def _drop_queries(self) -> None:
        """Leave no query behind, but do not wait for one that the driver holds."""
        queries = self._stuck + ([self._query] if self._query is not None else [])
        deadline = time.monotonic() + 1
        for query in queries:
            query.give_up()
        while not all(query.done() for query in queries) and time.monotonic() < deadline:
            time.sleep(0.01)
        for query in queries:
            query.close()

    def _watch(
        self,
        process: "subprocess.Popen[bytes]",
        tree: Tree,
        caught: Set[int],
        mask: Set[int],
    ) -> int:
        tick, next_tick = 0, time.monotonic() + self.sample_freq
        while True:
            self._wait(process, tree, caught, next_tick)
            if process.poll() is not None:
                if self._ending:
                    self._end_rest(tree)
                return process.returncode
            idle = self._collect(tree, mask)
            if idle:
                return self._kill(process, tree, idle)
            now = time.monotonic()
            if now < next_tick:
                continue
            if now - next_tick > 3 * self.sample_freq:
                self._window.clear()  # this process stood still: nothing is known about that time
                self._activity.clear()
                next_tick = now
            next_tick += self.sample_freq
            tick += 1
            if tick < self.delay_samples:
                left = (self.delay_samples - tick) * self.sample_freq
                logger.info("waiting for delay samples. %s seconds left", left)
            else:
                self._sample(tree, mask)

    def _wait(self, process: "subprocess.Popen[bytes]", tree: Tree, caught: Set[int], until: float) -> None:
        """Sleep until something happens; hand signals on to the command."""
        deadline = until if self._query is None else min(until, self._query.started + self._query_deadline())
        left = max(0.0, deadline - time.monotonic())
        info = signal.sigtimedwait(caught | {signal.SIGCHLD}, min(left, 3600.0))
        if info is None:
            return
        if info.si_signo == signal.SIGCHLD:
            self._reap(process, tree)
            return
        self._ending = self._ending or signal.Signals(info.si_signo).name in ENDING
        if info.si_code != SI_KERNEL and process.poll() is None:
            os.kill(process.pid, info.si_signo)

    def _reap(self, process: "subprocess.Popen[bytes]", tree: Tree) -> None:
        """Take the exit statuses of adopted orphans, so that they do not stay as zombies."""
        if not self.adopt_orphans:
            return
        me, ours = os.getpid(), {process.pid} | tree.strangers
        for pid, proc in _processes().items():
            if proc.ppid == me and proc.state == "Z" and pid not in ours:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except OSError:
                    pass

    def _query_deadline(self) -> float:
        return max(QUERY_DEADLINE_S, float(self.sample_freq))

    def _sample(self, tree: Tree, mask: Set[int]) -> None:
        self._activity.append((time.monotonic(), tree.activity()))
        for query in [query for query in self._stuck if query.done()]:
            self._stuck.remove(query)
            query.close()
            tree.strangers.discard(query.pid)
        if self._query is None and not self._stuck:
            self._start_query(QUERY, tree, mask)

    def _start_query(self, argv: List[str], tree: Tree, mask: Set[int]) -> None:
        try:
            self._query = Query(argv, mask)
        except OSError as error:
            self._warn("nvidia-smi cannot be started: %s" % error.strerror)
            return
        tree.strangers.add(self._query.pid)

    def _collect(self, tree: Tree, mask: Set[int]) -> List[str]:
        """Look at the query under way; returns the GPUs for whose idleness the command is to be killed."""
        query = self._query
        if query is None:
            return []
        if not query.done():
            if time.monotonic() - query.started >= self._query_deadline():
                query.give_up()
                self._stuck.append(query)
                self._query = None
                self._memory = False
                self._warn("nvidia-smi has not answered for %.0f seconds" % self._query_deadline())
            return []
        self._query = None
        tree.strangers.discard(query.pid)
        memory, self._memory = self._memory, False
        try:
            usage = parse_usage(query.lines())
        except RuntimeError as error:
            self._warn(str(error))
            return []
        if memory:
            self._judge_spinning(usage)
            return []
        return self._judge(usage, tree, mask)

    def _judge(self, usage: Dict[str, Optional[int]], tree: Tree, mask: Set[int]) -> List[str]:
        if not usage:
            self._warn("nvidia-smi lists no GPU")
            return []
        for uuid, percent in usage.items():
            logger.debug("%s usage %s", uuid, "n/a" if percent is None else "%d%%" % percent)
        blind = [uuid for uuid, percent in usage.items() if percent is None]
        if blind:
            self._warn("no usage reading for GPUs: %s" % blind)
        else:
            self._said = ("", 0.0)
        self._window.add(usage)
        idle = self._window.idle(self.all_or_any)
        if not idle:
            self._busy_since = None
            due = time.monotonic() - self._spin_said >= self.window_size
            if due and self._window.spinning():
                self._memory = True
                self._start_query(MEMORY_QUERY, tree, mask)
        return [] if idle and self._working() else idle

    def _working(self) -> bool:
        """Whether the tree computes, reads or writes although its GPUs are idle."""
        if len(self._activity) < 2:
            return False
        (begin, first), (end, last) = self._activity[0], self._activity[-1]
        cores = max(0.0, last.cpu_s - first.cpu_s) / max(end - begin, 1e-3)
        rate = max(0, last.moved - first.moved) / max(end - begin, 1e-3)
        if cores < BUSY_CORES and rate < BUSY_BYTES_PER_S:
            self._busy_since = None
            return False
        if self._busy_since is None:
            self._busy_since = end
            logger.info(
                "GPUs are below threshhold %s%% but the process is working (%.1f CPU cores, %.1f MB/s read "
                "and written), not killing for now.",
                self.threshhold_percentage,
                cores,
                rate / 1e6,
            )
        return end - self._busy_since < BUSY_LIMIT_S

    def _judge_spinning(self, memory_usage: Dict[str, Optional[int]]) -> None:
        spinning = self._window.spinning()
        if spinning and all(memory_usage.get(uuid) == 0 for uuid in spinning):
            self._spin_said = time.monotonic()
            logger.warning(
                "GPUs %s are at 100%% without using their memory for %s seconds: they wait for another rank, "
                "which may be hung. This alone is no proof, not killing.",
                spinning,
                self.window_size,
            )

    def _warn(self, text: str) -> None:
        """Say once a minute why a reading could not be had; it counts neither for nor against idleness."""
        now = time.monotonic()
        if text != self._said[0] or now - self._said[1] >= 60:
            self._said = (text, now)
            logger.warning("%s. This reading is not counted.", text)

    def _kill(self, process: "subprocess.Popen[bytes]", tree: Tree, idle: List[str]) -> int:
        logger.error(
            "usage for %s: %s was below threshhold %s%% for last %s seconds. Killing process.",
            "all GPUs" if self.all_or_any == "all" else "any GPU",
            idle,
            self.threshhold_percentage,
            self.window_size,
        )
        asked = self.signal_name is not None or self.signal_children
        signum = getattr(signal, self.signal_name or "SIGQUIT")
        if not asked:
            logger.error("process still alive, maybe hung, killing.")
        if self.signal_children:
            self._signal_children(process.pid, signum)
        if asked:
            logger.info("Sending signal %s to process %s", signum.name, process.pid)
        if process.poll() is None:
            os.kill(process.pid, signum)
        alive = self._until_gone(process, tree, SIGNAL_GRACE_S)
        if alive and asked:
            logger.error("process still alive, maybe hung, killing.")
        self._kill_rest(process, tree)
        return 1

    @staticmethod
    def _signal_children(root: int, signum: signal.Signals) -> None:
        table = _processes()
        layers = _layers([root], table)
        logger.info("signal children: logging process tree")
        for number, layer in enumerate(layers):
            for pid in layer:
                logger.info("signal children: layer %s: pid %s: '%s'", number, pid, _command_line(pid))
        logger.info("signal children: signalling started")
        for number, layer in reversed(list(enumerate(layers))):
            for pid in layer:
                # The missing blank is part of the line that log readers know.
                logger.info("signal children: send signal %sto pid %s in layer %s", signum.name, pid, number)
                _send(pid, table[pid].start, signum)
        logger.info("signal children: signaling ended")

    def _until_gone(self, process: "subprocess.Popen[bytes]", tree: Tree, limit_s: float) -> List[int]:
        deadline = time.monotonic() + limit_s
        while True:
            process.poll()
            alive = tree.look()
            self._reap(process, tree)
            if not alive or time.monotonic() >= deadline:
                return sorted(alive)
            time.sleep(0.05)

    def _kill_rest(self, process: "subprocess.Popen[bytes]", tree: Tree) -> None:
        deadline = time.monotonic() + KILL_WAIT_S
        alive = sorted(tree.look())
        while alive and time.monotonic() < deadline:
            tree.signal(signal.SIGKILL)
            alive = self._until_gone(process, tree, 0.2)
        if alive:
            logger.error("processes %s do not die.", alive)

    def _end_rest(self, tree: Tree) -> None:
        """The command ended after a signal that was forwarded: what it left behind is asked, then killed."""
        deadline = time.monotonic() + REST_GRACE_S
        tree.signal(signal.SIGTERM)
        while tree.look():
            tree.signal(signal.SIGKILL if time.monotonic() >= deadline else 0)
            if time.monotonic() >= deadline + KILL_WAIT_S:
                return
            time.sleep(0.05)
            self._reap_all()

    def _reap_all(self) -> None:
        try:
            while self.adopt_orphans and os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except OSError:
            pass


def _become_subreaper() -> None:
    """Orphans of the command become children of this process (Linux); without it they are just not found."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        pass


def configure_logging(debug: bool) -> None:
    """Log to stderr in the command's own format."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s: %(levelname)s: %(name)s: %(message)s"))
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.DEBUG if debug else logging.INFO)


def make_parser() -> argparse.ArgumentParser:
    """The command line. `threshhold` is spelled as everybody's scripts spell it."""
    parser = argparse.ArgumentParser(
        prog="gpu_idle_timeout",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Launches a process and terminates when GPU usage drops below threshhold during sample "
        "window. Note: requires 'nvidia-smi' binary to be accessible in PATH",
    )
    add = parser.add_argument
    add("-t", "--threshhold-percentage", type=int, default=1,
        help="Threshhold in percentage of GPU usage which triggers a failure. Must be greater than 0.")  # fmt: skip
    add("-s", "--sample-freq", type=int, default=5,
        help="How frequently, in seconds, to sample the GPU usage. Must be greater than 0.")  # fmt: skip
    add("-n", "--num-samples", type=int, default=60,
        help="Number of samples in window used to evaluate GPU usage. Must be greater than 0.")  # fmt: skip
    add("-d", "--delay-samples", type=int, default=12,
        help="Number of samples to delay before evaluating GPU usage.")  # fmt: skip
    add("-x", "--debug", action="store_true", default=False,
        help="Enable debug logging (reports GPU readings each sample period).")  # fmt: skip
    add("-a", "--all-or-any", choices=("all", "any"), default="all",
        help="Whether all GPUs must be idle, or any one of them.")  # fmt: skip
    add("--signal-name", default=argparse.SUPPRESS, metavar="SIGNAL_NAME",
        help="Signal to send to the process before killing it. (default: SIGQUIT)")  # fmt: skip
    add("--signal-children", action="store_true", default=False,
        help="Send the signal to the children of the process too, deepest first.")  # fmt: skip
    add("exec_command_and_args", nargs=argparse.REMAINDER, help="Command and arguments to execute")
    return parser


def _fault(args: argparse.Namespace, command: Sequence[str], signal_name: Optional[str]) -> Optional[str]:
    if not command:
        return "You must append the program and arguments you would like to execute."
    for name in ("threshhold_percentage", "sample_freq", "num_samples"):
        if getattr(args, name) <= 0:
            return "%s must be greater than 0." % name.upper()
    if signal_name is not None and not isinstance(getattr(signal, signal_name, None), signal.Signals):
        return "unknown SIGNAL '%s'." % signal_name
    return None


def run(argv: Optional[Sequence[str]] = None) -> int:
    """One command line; returns the exit code (-N when the command died of signal N)."""
    parser = make_parser()
    args = parser.parse_args(argv)
    command = list(args.exec_command_and_args)
    if command[:1] == ["--"]:
        command = command[1:]
    signal_name = getattr(args, "signal_name", None)
    watcher, fault = None, _fault(args, command, signal_name)
    if fault is None:
        try:
            watcher = IdleGpuWatcher(
                args.threshhold_percentage,
                args.sample_freq,
                args.num_samples,
                args.delay_samples,
                args.all_or_any,
                signal_name,
                args.signal_children,
                adopt_orphans=True,
            )
        except RuntimeError as error:
            fault = str(error)
    if watcher is None:
        parser.print_help()
        sys.stdout.flush()
        print("\nERROR: %s" % fault, file=sys.stderr)
        return 1
    configure_logging(args.debug)
    try:
        return watcher.watch_process(command)
    except OSError as error:
        print("ERROR: cannot execute '%s': %s" % (command[0], error.strerror), file=sys.stderr)
        return 127 if isinstance(error, (FileNotFoundError, NotADirectoryError)) else 126


def main() -> None:
    """Entry point: leaves with the code of `run`; death by signal N becomes 256 - N."""
    sys.exit(run())


if __name__ == "__main__":
    main()
