"""Ray clusters for commands: the dashboard of a target, and what a diagnosis can read of a job."""

import os

from runward import ports
from runward.app import diagnose
from runward.backends.ray import backend
from runward.core import context, errors, job, signals
from runward.wiring import ray_reach
from runward.wiring.diagnose import Sources, text_log

DEFAULT = "http://127.0.0.1:8265"


def default_url() -> str:
    """RAY_API_SERVER_ADDRESS, else port 8265 of this machine."""
    return os.environ.get("RAY_API_SERVER_ADDRESS") or DEFAULT


def split(target: str) -> tuple[str, str]:
    """Job id and address of `ID@URL`; without an address, RAY_API_SERVER_ADDRESS or this machine's port 8265."""
    job_id, _, url = target.partition("@")
    if not job_id:
        raise errors.UsageError(
            errors.Problem(
                "no job id",
                "ray:",
                next_step="Write ray:ID@http://host:8265 or ray:ID@pod:NAMESPACE/HEADPOD.",
            )
        )
    return job_id, url or default_url()


_clusters: dict[tuple[str, float], backend.Ray] = {}


def cluster(url: str) -> backend.Ray:
    """The backend at a dashboard. Raises UsageError for what is no address."""
    try:
        return backend.Ray(ray_reach.dashboard(url, os.environ))
    except ValueError as error:
        raise errors.UsageError(errors.Problem(str(error), "ray:")) from error


def shared(url: str, every_s: float) -> backend.Ray:
    """The backend that all runs of this process at one dashboard share, so that one list serves them all."""
    if (url, every_s) not in _clusters:
        one = cluster(url)
        _clusters[url, every_s] = backend.Ray(one.dashboard, backend.Settings(every_s=0.9 * every_s))
    return _clusters[url, every_s]


def diagnosable(target: str) -> Sources:
    """What the general diagnosis can read of `ID@URL`: the driver's whole log, its exit, and Ray's words."""
    job_id, url = split(target)
    one = cluster(url)
    seen = one.poll([job_id])[job_id]
    if isinstance(seen, job.Unseen):
        if one.details(job_id) is None:
            raise errors.NotFound(errors.Problem(seen.why, f"ray:{target}"))
        raise errors.Unreachable(errors.Problem(seen.why, f"ray:{target}"))
    logs: tuple[diagnose.Log, ...] = ()
    said = [seen.reason] if seen.reason and seen.state.final else []
    try:
        text = one.whole_log(job_id)
        logs = (text_log(signals.Source(f"ray:{job_id}"), text.encode()),)
        said = [own for own in (_beside(words, text) for words in said) if own]
    except ports.ContactLost as lost:  # its node is gone, and the log with it
        said.append(f"the log cannot be had: {lost}"[:400])
    known = context.Context(
        exit=seen.exit,
        running=not seen.state.final,
        state="NODE_FAIL" if seen.state is job.JobState.NODE_FAILED else seen.word,
        scheduler="ray",
        witnesses=seen.witnesses,
        texts=tuple(context.Text("ray", words) for words in said),
        node=seen.node,
    )
    return Sources(logs, known)


def _beside(words: str, log: str) -> str:
    """What Ray says that the log does not: it repeats the log's end, torn out of what introduces it."""
    return "\n".join(line for line in words.splitlines() if line.strip() and line.strip() not in log)
