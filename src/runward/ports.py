"""The doors to the world: small protocols, and the values that cross them.

Everything that touches a process, a file, a scheduler or the network stands behind one of these and has a
fake under `tests/fakes`. Adapters never let a bare exception of the world through: they raise `ContactLost`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from runward.core import errors, log_data

if TYPE_CHECKING:  # a look at a log needs none of their sixty classes
    from runward.core import events, job


class ContactLost(errors.Unreachable):
    """The place could not be asked (link, time-out, refused). Says nothing about the job."""


class Completed(NamedTuple):
    """What a command left behind."""

    argv: tuple[str, ...]
    code: int | None
    """Exit code; negative for a signal; None when the deadline ended it."""
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False
    """Whether output beyond the limit was dropped."""

    @property
    def ok(self) -> bool:
        """Exit 0 within the deadline."""
        return self.code == 0 and not self.timed_out

    @property
    def text(self) -> str:
        """stdout, decoded; undecodable bytes become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")


class Call(NamedTuple):
    """One command to be run somewhere: argv only, always with a deadline and an output bound."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    deadline_s: float = 15.0
    limit: int = 4 << 20
    """Bytes kept of each output stream."""
    env: Mapping[str, str] | None = None
    """Replaces the environment when given."""
    cwd: str | None = None


class Runner(Protocol):
    """Where commands are executed."""

    @property
    def name(self) -> str:
        """`local`, `ssh:HOST`, `pod:NAMESPACE/POD`."""
        ...

    def run(self, call: Call) -> Completed:
        """Run a command to its end or its deadline. A command that cannot be found has code 127.

        Raises ContactLost when the place itself cannot be reached.
        """
        ...

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """Bytes of a file there, at most `limit`; empty at its end.

        Raises FileNotFoundError, PermissionError, IsADirectoryError; ContactLost.
        """
        ...


Chunk = log_data.Chunk


class LogStream(Protocol):
    """One growing log, wherever it lives."""

    @property
    def name(self) -> str:
        """Path or other name, as shown in evidence."""
        ...

    @property
    def rank(self) -> int | None:
        """The rank whose output this is, when one log is one rank."""
        ...

    def read_new(self, budget: int) -> Sequence[Chunk]:
        """What came since the last call, at most about `budget` bytes. Raises ContactLost."""
        ...


class EndPlan(NamedTuple):
    """How to end a job: ask, wait, insist."""

    signum: int = 15
    grace_s: float = 60.0
    why: str = ""
    now: bool = False
    """Insist at once."""
    stacks: bool = False
    """Capture stacks first, where the backend can."""


class Backend(Protocol):
    """What schedules a job and knows its state."""

    @property
    def name(self) -> str:
        """`process`, `docker`, `slurm`, `ray`, `k8s`."""
        ...

    def poll(self, jobs: Sequence[str]) -> "Mapping[str, job.JobStatus | job.Unseen]":
        """The state of all of `jobs` in one query. The world's faults become `Unseen`, never an exception."""
        ...

    def submit(self, spec: "job.JobSpec", token: str) -> str:
        """Start a job that carries `token`; returns its id.

        Raises ContactLost when it is not known whether the job was started: ask `find` before trying again;
        InternalError when it was not, and a person has to mend something first.
        """
        ...

    def find(self, token: str) -> str | None:
        """The job that carries `token`, or None when there certainly is none. Raises ContactLost."""
        ...

    def cancel(self, job_id: str, plan: EndPlan) -> None:
        """Ask the job to end. `poll` says when it is gone. Raises ContactLost."""
        ...

    def logs(self, job_id: str) -> Sequence[LogStream]:
        """The job's logs, those that exist by now. Raises ContactLost."""
        ...


class Notice(NamedTuple):
    """What a notifier is given: the JSON object, and the same in one line of text."""

    event: str
    """`held`, `failed`, `recovered`, `succeeded`, `blind`, `stalled`, `alert`."""
    run: str
    title: str
    text: str
    payload: Mapping[str, object]

    @property
    def body(self) -> dict[str, object]:
        """All of it as one object, as it is sent."""
        told = {"event": self.event, "run": self.run, "title": self.title, "text": self.text}
        return {**self.payload, **told}


class Notifier(Protocol):
    """One way to tell a person."""

    def send(self, notice: Notice) -> None:
        """Deliver once within 10 s. Raises DeliveryFailed."""
        ...


class DeliveryFailed(Exception):
    """A notice did not arrive. `permanent`: trying again cannot help."""

    def __init__(self, why: str, *, permanent: bool = False) -> None:
        super().__init__(why)
        self.permanent = permanent


class Clock(Protocol):
    """Time as an argument."""

    def wall(self) -> float:
        """Seconds since the epoch: instants for people."""
        ...

    def mono(self) -> float:
        """Monotonic seconds: budgets and windows."""
        ...

    def boot_id(self) -> str:
        """Changes when the machine was restarted."""
        ...


Hit = log_data.Hit


class Scanner(Protocol):
    """Finds many patterns in the bytes of one log, which come in any pieces."""

    @property
    def engine(self) -> str:
        """`pyperscan`, `ahocorasick` or `stdlib`; said in the status."""
        ...

    @property
    def engine_notes(self) -> Sequence[str]:
        """Why an engine that is installed and faster is not used; said in the status."""
        ...

    def feed(self, data: bytes, offset: int, *, bulk: bool = False) -> Sequence[Hit]:
        """Hits in the complete lines that `data` finishes, by offset; the partial last line is carried over.

        Bytes that were fed before are passed over. After a gap the scanner begins anew at `offset`. Where `bulk`
        data hold nothing but patterns that were compiled as sparse, only the first and last few hits are given.
        """
        ...

    def flush(self) -> Sequence[Hit]:
        """Hits in the carried partial line: the log has ended, or begins again (`Chunk.restarted`).

        The next `feed` may then begin at any offset.
        """
        ...


class StoreUnavailable(errors.Unreachable):
    """State cannot be written now (disk full, locked, read-only). Nothing was written; nothing may be done yet."""


class RunRow(NamedTuple):
    """A run as the store lists it."""

    id: int
    name: str
    created_at: float


class Request(NamedTuple):
    """What a person asked of a run's watcher."""

    id: int
    kind: str
    """`stop`, `restart`, `pause`, `unpause`."""
    by: str
    at: float
    options: Mapping[str, object]


class Holder(NamedTuple):
    """Who watches a run."""

    pid: int
    host: str
    boot_id: str
    started: float
    """The process's start time in clock ticks since boot: tells a re-used pid."""
    since: float
    number: int


class Store(Protocol):
    """Durable state of all runs on this machine."""

    def create(self, name: str, at: float) -> RunRow:
        """Room for a new run, which there is once its journal begins; an ended one of that name becomes `name~1`.

        What is left of one whose journal never began is removed. Raises StoreUnavailable.
        """
        ...

    def runs(self) -> Sequence[RunRow]:
        """All runs whose journal has begun, oldest first."""
        ...

    def find(self, name: str) -> RunRow | None:
        """The run of that name, once its journal has begun."""
        ...

    def append(
        self,
        run_id: int,
        new: "Sequence[events.Event]",
        lease: int,
        summary: Mapping[str, object] | None = None,
    ) -> None:
        """Write events, and the run's line of `ps` after them, in one transaction.

        Raises StoreUnavailable, LeaseLost.
        """
        ...

    def history(self, run_id: int, after: int = 0) -> "Sequence[tuple[int, events.Event]]":
        """Events with their sequence numbers, oldest first."""
        ...

    def put_progress(self, rows: Mapping[int, Mapping[str, object]]) -> None:
        """Replace the newest samples of runs, by their ids. Raises StoreUnavailable."""
        ...

    def progress(self, run_id: int) -> Mapping[str, object]:
        """The newest sample; empty when there is none."""
        ...

    def take_lease(self, run_id: int, holder: Holder) -> int:
        """Write the holder and return the next lease number. Raises StoreUnavailable."""
        ...

    def holder(self, run_id: int) -> Holder | None:
        """Who took the lease last; whether it lives is for the caller to find out."""
        ...

    def ask(self, run_id: int, request: Request) -> int:
        """Leave a request for the watcher (its `id` is ignored); returns its id. Raises StoreUnavailable."""
        ...

    def requests(self, run_id: int) -> Sequence[Request]:
        """Requests that nobody has answered yet, oldest first."""
        ...

    def asked(self) -> Collection[int]:
        """Ids of the runs with a request that nobody has answered yet: one question for all runs."""
        ...

    def answer(self, request_id: int, at: float) -> None:
        """Mark a request as done."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


class LeaseLost(errors.Unreachable):
    """Another watcher has taken this run since: write nothing, do nothing."""
