"""A run's attempt as something to diagnose: its output, and what its keeper and the journal know."""

from collections.abc import Iterator

from runward import ports
from runward.app import diagnose as app
from runward.core import context, errors, job, run, signals
from runward.wiring import kept_runs, looking
from runward.wiring.diagnose import Sources
from runward.wiring.place import Place

_CHUNK = 1 << 20


def diagnosable(name: str, attempt: int | None = None) -> Sources:
    """Logs and context of an attempt of a run, the last one when no number is given. Raises NotFound."""
    state = looking.standing(name)
    chosen = looking.attempt(name, state, attempt)
    asked = kept_runs.options_of(name)
    if asked is None or chosen.handle is None:
        raise errors.NotFound(f"the output of attempt {chosen.n} of {name!r} is not on this machine")
    place = kept_runs.place_for(asked, acts=False)
    status = place.backend.poll([chosen.handle])[chosen.handle]  # first: a scheduler says where its logs are
    streams = place.backend.logs(chosen.handle)
    logs = tuple(app.Log(signals.Source(one.name, one.rank), _chunks(one)) for one in streams)
    moment = looking.moments(state).get(chosen.n)
    return Sources(
        logs,
        _context(chosen, context.by_us(chosen.ending, observe_only=asked.observe_only), status, place),
        box=moment,
        search=kept_runs.dumps_of(asked, place, chosen, streams),
    )


def _chunks(stream: ports.LogStream) -> Iterator[ports.Chunk]:
    while chunks := stream.read_new(_CHUNK):
        yield from chunks


def _context(
    attempt: run.Attempt, by_us: str, status: job.JobStatus | job.Unseen, place: Place
) -> context.Context:
    if attempt.live or isinstance(status, job.Unseen):
        return context.Context(
            exit=attempt.exit, running=attempt.live, stopped_by_us=by_us, total_steps=attempt.total
        )
    handle = attempt.handle or ""
    return context.Context(
        exit=attempt.exit,
        running=False,
        witnesses=(*status.witnesses, *place.witnesses(handle, status)),
        texts=place.texts(handle, status),
        stopped_by_us=by_us,
        total_steps=attempt.total,
        node=status.node,
    )
