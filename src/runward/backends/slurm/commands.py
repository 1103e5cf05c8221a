"""Slurm's own commands, through a runner: explicit formats, a scrubbed environment, a deadline on each.

An answer that says "no such job" is an answer; everything else that fails raises ContactLost.
"""

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runward import ports
from runward.backends.slurm import records

_SCRUBBED = ("SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_", "SINFO_")
_SCRUBBED_WORDS = frozenset(
    {
        *("SLURM_TIME_FORMAT", "SLURM_CLUSTERS", "SLURM_BITSTR_LEN", "SLURM_JSON"),
        *("SBATCH_WAIT", "SBATCH_CLUSTERS"),
    }
)
"""Which cluster is meant is said by an option, or it is the machine's own; SBATCH_WAIT would not return before the end
of the job. SBATCH_ACCOUNT and the like are how a user says what every job gets."""
_NO_SUCH_JOB = ("Invalid job id specified", "invalid job id")
_NO_ACCOUNTING = ("accounting storage is disabled", "Problem talking to the database", "not found")
_REFUSED = (
    "Batch job submission failed",
    "Unable to open file",
    "error: Unable to read",
    "unrecognized option",
    "known by database",
)
_NO_REQUEUE = (
    *_NO_SUCH_JOB,
    "Requested operation is presently disabled",
    "Operation is not permitted",
    "Access/permission denied",
    "already completing",
    "pending execution",
)
_UNSURE = (
    "Socket timed out",
    "Unable to contact",
    "Connection refused",
    "Zero Bytes",
    "communication",
    "Timeout",
)
_ACCOUNTED = frozenset({"CANCELLED", "COMPLETED"})
_FEDERATED = 1 << 26
"""Ids from here on name the cluster of a federation that gave them; lower ones may be those of several clusters."""
MOST_IDS = 500
"""Above so many ids squeue is asked by user."""
MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Names:
    """What the commands are called here."""

    squeue: str = "squeue"
    sacct: str = "sacct"
    scontrol: str = "scontrol"
    sbatch: str = "sbatch"
    scancel: str = "scancel"
    sinfo: str = "sinfo"


class Refused(ports.ContactLost):
    """Slurm said no: nothing was submitted or queued again, in its own words."""


class Commands:
    """The commands of one cluster: this machine's own, or the one that `-M` names."""

    def __init__(
        self,
        runner: ports.Runner,
        environ: Mapping[str, str],
        names: Names = Names(),
        deadline_s: float = 30.0,
        cluster: str | None = None,
    ) -> None:
        self._cluster = cluster
        self._runner = runner
        self._env = scrubbed(environ)
        self._names = names
        self._deadline_s = deadline_s
        self._accounting = True

    def queue(self, jobs: Sequence[str], *, whole: bool = False) -> dict[str, records.Record]:
        """All of `jobs` that Slurm has in memory, in one query; `whole`: all of this user's. Raises ContactLost."""
        ids = sorted({base(one) for one in jobs})
        by_user = whole or not ids or len(ids) > MOST_IDS
        which = ["-u", getpass.getuser()] if by_user else ["-j", ",".join(ids)]
        found = self._listed(which)
        revoked = [key for key, one in found.items() if one.word == records.REVOKED]
        return {**found, **self._siblings(revoked)} if revoked else found

    def _listed(self, which: Sequence[str]) -> dict[str, records.Record]:
        argv = [self._names.squeue, "-h", "-r", "-t", "all", *which, "--Format", records.squeue_format()]
        return records.parse_squeue(self._ask(argv, there="--federation" not in which))

    def _siblings(self, revoked: Sequence[str]) -> dict[str, records.Record]:
        """Jobs that another cluster of the federation took, as that one has them; the nodes are none of this one's."""
        ids = ",".join(sorted({base(one) for one in revoked}))
        try:
            found = self._listed(["--federation", "--sibling", "-j", ids])
        except ports.ContactLost:
            return {}
        return {key: replace(found[key], nodes="") for key in revoked if key in found}

    def accounts(self, jobs: Sequence[str]) -> dict[str, records.Record]:
        """What accounting says of `jobs`; empty where there is no accounting. Raises ContactLost."""
        if not self._accounting:
            return {}
        ids = sorted({base(one) for one in jobs})
        federated = [one for one in ids if one.isdigit() and int(one) >= _FEDERATED and not self._cluster]
        plain = [one for one in ids if one not in federated]
        try:
            here = self._accounted(plain) if plain else {}
            elsewhere = self._accounted(federated, "--federation") if federated else {}
            return {**here, **{key: replace(one, nodes="") for key, one in elsewhere.items()}}
        except ports.ContactLost as error:
            if any(words in str(error) for words in _NO_ACCOUNTING):
                self._accounting = "Problem talking" in str(error)
                if not self._accounting:
                    return {}
            raise

    def _accounted(self, ids: Sequence[str], *options: str) -> dict[str, records.Record]:
        fields = ",".join(records.SACCT_FIELDS)
        which = ("-j", ",".join(ids), "-S", "1970-01-01", "-o", fields)
        return records.parse_sacct(self._ask([self._names.sacct, "-n", "-X", "-P", *options, *which]))

    def submit_line(self, job_id: str) -> str | None:
        """The command line that submitted a job, as accounting of Slurm 21.08 and newer keeps it.

        Empty while accounting does not know the job; None where it keeps no such line or is not there.
        """
        try:
            told = self._ask([self._names.sacct, "-n", "-X", "-P", "-j", base(job_id), "-o", "SubmitLine"])
        except ports.ContactLost:
            return None
        return next(iter(records.plain_lines(told)), "")

    def with_accounts(self, found: Mapping[str, records.Record]) -> dict[str, records.Record]:
        """With what accounting says of jobs that are over: who cancelled them, and how their steps ended."""
        over = [key for key, one in found.items() if one.word in _ACCOUNTED and one.told_by != "sacct"]
        try:
            told = self.accounts(over) if over else {}
        except ports.ContactLost:
            told = {}
        more = {
            key: replace(
                found[key],
                cancelled_by=told[key].cancelled_by,
                derived=told[key].derived or found[key].derived,
            )
            for key in over
            if key in told
        }
        return {**found, **more}

    def show(self, job_id: str) -> dict[str, records.Record]:
        """What the controller has of one job. Raises ContactLost."""
        return records.parse_scontrol(self._ask([self._names.scontrol, "show", "job", "-o", job_id]))

    def down(self, nodes: str) -> list[str]:
        """Those of `nodes` (`n[1-8]`) that are down or failed, else those that do not answer. Raises ContactLost."""
        for states in ("down,fail", "no_respond"):
            found = self._nodes("-n", nodes, "-t", states)
            if found:
                return found
        return []

    def count(self) -> int:
        """How many nodes the cluster has. Raises ContactLost."""
        return len(self._nodes())

    def _nodes(self, *which: str) -> list[str]:
        return sorted(
            set(records.plain_lines(self._ask([self._names.sinfo, "-h", "-N", *which, "-o", "%N"])))
        )

    def fields(self, job_id: str) -> dict[str, str]:
        """The controller's words about one job. Raises ContactLost."""
        shown = self._ask([self._names.scontrol, "show", "job", "-o", job_id])
        lines = records.plain_lines(shown)
        return records.scontrol_fields(lines[0]) if lines else {}

    def hostnames(self, nodes: str) -> list[str]:
        """The nodes of a list such as `n[1-3]`. Raises ContactLost."""
        argv = [self._names.scontrol, "show", "hostnames", nodes]
        return self._ask(argv, there=False).split() if nodes else []

    def submit(self, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> str:
        """Run `sbatch --parsable ARGV`; returns the job's id. Raises Refused, ContactLost."""
        call = ports.Call(
            (self._names.sbatch, *self._there, "--parsable", *argv),
            deadline_s=2 * self._deadline_s,
            cwd=cwd,
            env=scrubbed(env),
        )
        done = self._runner.run(call)
        said = done.stderr.decode("utf-8", "replace").strip()
        if done.ok:
            found = done.text.strip().splitlines()[-1:] or [""]
            job_id = found[0].partition(";")[0]
            if job_id.isdigit():
                return job_id
            raise ports.ContactLost(f"sbatch answered {done.text.strip()[:200]!r}")
        if not done.timed_out and any(w in said for w in _REFUSED) and not any(w in said for w in _UNSURE):
            raise Refused(f"sbatch: {said[:500]}")
        raise ports.ContactLost(_why(done, said))

    def requeue(self, job_id: str) -> None:
        """Queue a job again under its id, over or not. Raises Refused where Slurm says no, ContactLost."""
        try:
            self._ask([self._names.scontrol, "requeue", job_id], no_such_job=False)
        except ports.ContactLost as error:
            if any(words in str(error) for words in _NO_REQUEUE):
                raise Refused(str(error)) from error
            raise

    def update(self, job_id: str, *pairs: str) -> None:
        """Change a job that waits, by `Key=value`. Raises ContactLost."""
        self._ask([self._names.scontrol, "update", f"JobId={job_id}", *pairs])

    def cancel(self, job_id: str, *options: str) -> None:
        """Run scancel; a job that is gone already is no failure. Raises ContactLost."""
        self._ask([self._names.scancel, *options, job_id])

    @property
    def _there(self) -> tuple[str, ...]:
        return ("-M", self._cluster) if self._cluster else ()

    def _ask(self, argv: Sequence[str], *, no_such_job: bool = True, there: bool = True) -> str:
        """What a command prints; `no_such_job`: that there is none is an answer; `there`: the cluster is meant."""
        told = (argv[0], *(self._there if there else ()), *argv[1:])
        call = ports.Call(told, deadline_s=self._deadline_s, limit=MOST_BYTES, env=self._env)
        done = self._runner.run(call)
        if done.ok and not done.truncated:
            return done.text
        said = done.stderr.decode("utf-8", "replace").strip()
        if no_such_job and not done.timed_out and any(words in said for words in _NO_SUCH_JOB):
            return done.text
        raise ports.ContactLost(_why(done, said))


def _why(done: ports.Completed, said: str) -> str:
    name = done.argv[0]
    if done.timed_out:
        return f"{name} did not answer in time"
    if done.truncated:
        return f"{name} printed more than {MOST_BYTES} bytes"
    return f"{name} failed ({done.code}): {said.splitlines()[-1][:300] if said else 'no words'}"


def scrubbed(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what changes the commands' output or options."""
    return {
        key: value
        for key, value in environ.items()
        if not key.startswith(_SCRUBBED) and key not in _SCRUBBED_WORDS
    }


def base(job_id: str) -> str:
    """The id that commands take for all elements and parts of a job.

    >>> base("12_3"), base("12+1"), base("12")
    ('12', '12', '12')
    """
    return job_id.partition("_")[0].partition("+")[0]
