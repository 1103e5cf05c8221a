"""Signals of a monitoring configuration, found in the logs of the live attempt: recorded, executed, reported.

Each event has one record, named by attempt, log and place in it, and made exclusively: what was recorded is never
done again, however often a log is read, and no record replaces another.
"""

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runward import ports
from runward.app import errands, kept
from runward.core import (
    events,
    log_matching,
    log_signals,
    mode_policies,
    mode_reports,
    observations,
    run,
    whole_lines,
)

_CHUNK = 1 << 20
_A_TICK = 16 << 20
_KEPT_OUTPUT = 64 << 10
_AT_ONCE = 4
_KEPT_MATCHES = 10_000
_NEWEST_EVERY_S = 10.0


@dataclass(frozen=True)
class Means:
    """What it works with."""

    monitor: log_signals.Monitor
    streams: Callable[[str], Sequence[ports.LogStream]]
    """Fresh readers of the logs of a handle."""
    runner: ports.Runner
    clock: ports.Clock
    folder: str
    """Where records are kept."""
    cwd: str
    outputs: Callable[[str], Sequence[ports.LogStream]] = lambda _handle: ()
    """Fresh readers of the further files that the configuration names."""
    state: Callable[[str], str] = lambda _handle: "running"
    """Whether the job of a handle is `pending`, `running` or in a `stall`."""
    timeout_s: float = 600.0
    """A command that runs longer is ended."""


@dataclass
class _Attempt:
    handle: str
    n: int
    job: str
    logs: dict[str, tuple[ports.LogStream, whole_lines.WholeLines]] = field(default_factory=dict)
    outputs: set[str] = field(default_factory=set)
    proven: list[log_signals.Match] = field(default_factory=list)
    newest: dict[tuple[str, str, int], "_Event"] = field(default_factory=dict)
    """The last event of progress that is not written yet, by log, signal and action."""
    newest_at: float | None = None
    changed_at: float | None = None
    """When something new was read last; monotonic seconds."""
    finished: str | None = None
    """What said that the job is done, in words."""


def _of_progress(signal: log_signals.LogSignal, action: log_signals.RecordedAction) -> bool:
    """Whether of this action only the newest record is kept."""
    return signal.metadata.get("kind") == "progress" and action.class_name != "ExecutionAction"


def _newest_alone(signal: log_signals.LogSignal) -> bool:
    """Whether of many lines of this signal the last one says all."""
    return signal.state is None and all(_of_progress(signal, action) for action in signal.actions)


@dataclass(frozen=True)
class _Event:
    attempt: _Attempt
    log: str
    at: int
    """Offset of the line in its log."""
    found: log_signals.Match


class Signalling:
    """An observer of the live attempt; see `watching.Observer`."""

    def __init__(self, means: Means) -> None:
        self._means = means
        signals = means.monitor.signals
        self._newest = log_matching.Matcher(one for one in signals if _newest_alone(one))
        self._every = log_matching.Matcher(one for one in signals if not _newest_alone(one))
        self._attempt: _Attempt | None = None
        self._said: list[observations.Observation] = []
        self._commands: errands.Errands[tuple[str, Mapping[str, Any]]] = errands.Errands(
            means.runner, _AT_ONCE
        )

    def look(self, state: run.RunState) -> Sequence[observations.Observation]:
        """Read what is new; failures of commands are told."""
        live = state.live
        if live is not None and live.handle is not None:
            one = self._take_up(live.handle, live.n)
            if self._means.monitor.looks_at(self._means.state(live.handle)):
                self._advance(one)
        self._settle()
        said, self._said = self._said, []
        return said

    def _take_up(self, handle: str, n: int) -> _Attempt:
        if self._attempt is None or self._attempt.handle != handle:
            self._attempt = _Attempt(handle, n, handle.removeprefix("given:").partition("@")[0])
        return self._attempt

    def reports(self, handle: str) -> tuple[mode_policies.Report, ...]:
        """What the attempt's signals prove, its logs read to their end."""
        found = self._attempt
        if found is None or found.handle != handle:
            return ()
        while self._means.monitor.looks_at("running") and self._advance(found):
            pass
        found.newest_at = None
        self._keep_newest(found)
        return mode_reports.of_signals(found.proven)

    def _advance(self, one: _Attempt) -> int:
        got = 0
        try:
            outputs = self._means.outputs(one.handle)
            one.outputs.update(stream.name for stream in outputs)
            for stream in (*self._means.streams(one.handle), *outputs):
                one.logs.setdefault(stream.name, (stream, whole_lines.WholeLines()))
            for name, (stream, lines) in one.logs.items():
                while got < _A_TICK and (chunks := stream.read_new(_CHUNK)):
                    for chunk in chunks:
                        self._feed(one, name, lines, chunk)
                        got += len(chunk.data)
        except ports.ContactLost:
            return 0
        if got:
            one.changed_at = self._means.clock.mono()
        self._keep_newest(one)
        return got

    def changed_at(self, handle: str) -> float | None:
        """When something new was last read from the attempt's logs; None before that."""
        found = self._attempt
        return found.changed_at if found is not None and found.handle == handle else None

    def finished(self, handle: str) -> str | None:
        """What says that the attempt has done its work; None while nothing does."""
        found = self._attempt
        return found.finished if found is not None and found.handle == handle else None

    def finish(self, handle: str, why: str, done: ports.Completed | None = None) -> None:
        """Take note, once an attempt, that its work is done."""
        one = self._attempt
        if one is None or one.handle != handle or one.finished is not None:
            return
        one.finished = why
        body = {
            "job_id": one.job,
            "attempt": one.n,
            "event": "termination",
            "state": "success",
            "metadata": {"reason": "termination_condition_met", "why": why},
            "created_at": self._means.clock.wall(),
            **({"outcome": kept.outcome(done)} if done is not None else {}),
        }
        if self._record(os.path.join(self._means.folder, f"{one.n:04d}_termination.json"), body):
            self._said.append(observations.Note("termination", f"attempt {one.n} is done: {why}"))

    def _feed(self, one: _Attempt, name: str, lines: whole_lines.WholeLines, chunk: ports.Chunk) -> None:
        ended = list(lines.feed(chunk.data, restarted=chunk.restarted))
        done = self._means.monitor.termination_string
        said = next((line for _, line in ended if done in line), None) if done and not one.finished else None
        if said is not None:
            self.finish(one.handle, f"{said.strip()[:200]!r} in {name}")
        for at, found in (*self._every.many(ended), *self._newest.last(ended)):
            self._came(one, name, at, found)

    def _came(self, one: _Attempt, name: str, at: int, found: log_signals.Match) -> None:
        if found.signal.state is not None and len(one.proven) < _KEPT_MATCHES:
            one.proven.append(found)
        for index, action in enumerate(found.signal.actions):
            event = _Event(one, name, at, found)
            if _of_progress(found.signal, action):
                one.newest[name, found.signal.name, index] = event
            else:
                self._act(event, index, action)

    def _keep_newest(self, one: _Attempt) -> None:
        """Of progress only the newest is kept, in place: a run of weeks has millions of steps."""
        now = self._means.clock.mono()
        if not one.newest or (one.newest_at is not None and now - one.newest_at < _NEWEST_EVERY_S):
            return
        one.newest_at = now
        for (log, name, index), event in one.newest.items():
            action = event.found.signal.actions[index]
            file = (
                f"{one.n:04d}_{zlib.crc32(log.encode()):08x}_newest_{name}_{index}_{action.class_name}.json"
            )
            try:
                kept.replace(os.path.join(self._means.folder, file), self._body(event, action))
            except OSError as error:
                self._said.append(observations.Note("action", f"no record: {error}"))
        one.newest.clear()

    def _body(self, event: "_Event", action: log_signals.RecordedAction) -> dict[str, Any]:
        """What is kept of an event and its action."""
        one, found, log, signal = event.attempt, event.found, event.log, event.found.signal
        fields = {
            **{key: str(value) for key, value in signal.metadata.items()},
            **found.fields,
            "job_id": one.job,
            "source": "output" if log in one.outputs else "log",
            "source_path": log,
            "event_name": signal.name,
            "signal_name": signal.name,
            "state_key": signal.state.key if signal.state else "",
            "line": found.text,
        }
        return {
            "job_id": one.job,
            "attempt": one.n,
            "event": signal.name,
            "state": signal.state.key if signal.state else None,
            "action": action.class_name,
            "payload": action.payload(fields),
            "metadata": {**dict(signal.metadata), **found.fields, "source_path": log, "line": found.text},
            "created_at": self._means.clock.wall(),
        }

    def _act(self, event: "_Event", index: int, action: log_signals.RecordedAction) -> None:
        one, signal = event.attempt, event.found.signal
        place = f"{one.n:04d}_{zlib.crc32(event.log.encode()):08x}_{event.at:012d}"
        body = self._body(event, action)
        path = os.path.join(self._means.folder, f"{place}_{signal.name}_{index}_{action.class_name}.json")
        if self._record(path, body) and action.class_name == "ExecutionAction":
            self._execute(path, body)

    def _record(self, path: str, body: Mapping[str, Any]) -> bool:
        """Whether the event is new: its record was made now."""
        try:
            return kept.make(path, body)
        except OSError as error:
            self._said.append(observations.Note("action", f"no record, so not done: {error}"))
            return False

    def _execute(self, path: str, body: Mapping[str, Any]) -> None:
        argv = tuple(body["payload"]["command"])
        call = ports.Call(argv, deadline_s=self._means.timeout_s, limit=_KEPT_OUTPUT, cwd=self._means.cwd)
        self._commands.add(call, (path, body))

    def _settle(self, patience_s: float = 0.0) -> None:
        for (path, body), done in self._commands.done(patience_s):
            self._ended(path, body, done)

    def _ended(self, path: str, body: Mapping[str, Any], done: ports.Completed) -> None:
        kept.replace(path, {**body, "outcome": kept.outcome(done)})
        if not done.ok:
            how = "ended at its deadline" if done.timed_out else f"exit code {done.code}"
            if done.code is None and not done.timed_out:
                how = done.stderr.decode("utf-8", "replace")[:200]
            self._said.append(
                observations.Note("action", f"{body['event']}: {done.argv[0]}: {how}; see {path}")
            )

    def journalled(self, state: run.RunState, new: Sequence[events.Event]) -> None:
        """An ended attempt is let go."""
        del state
        if any(isinstance(event, events.AttemptEnded) for event in new):
            self._attempt = None

    def wait_fds(self, state: run.RunState) -> Sequence[int]:
        """Logs are looked at by the clock; a command that has ended is worth a look at once."""
        del state
        return self._commands.wait_fds()

    def close(self) -> None:
        """Commands under way get some seconds; those that go on are ended with this process's other threads."""
        for _ in range(3):  # those that wait for their turn, too
            self._settle(5.0)


def together(
    signals: tuple[mode_policies.Report, ...], known: tuple[mode_policies.Report, ...]
) -> tuple[mode_policies.Report, ...]:
    """Signals first, unless the scheduler says that the job succeeded."""
    if any(report.mode is mode_policies.Mode.SUCCESS for report in known):
        return known
    plain = [one for one in known if one.error_type == "slurm_failure"]
    better = any(one.mode is mode_policies.Mode.CRASH and one.error_type for one in signals)
    kept = [one for one in known if not (better and one in plain)]
    return tuple(dict.fromkeys((*signals, *kept)))
