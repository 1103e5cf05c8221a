"""A backend in memory: jobs that end as a script says, and a world that remembers what was ever started."""

from dataclasses import dataclass, field

from runward import ports
from runward.core import errors, job


@dataclass
class FakeJob:
    token: str
    argv: tuple[str, ...]
    polls_left: int
    exit: job.ExitStatus
    ended: bool = False
    asked: list[ports.EndPlan] = field(default_factory=list)


@dataclass
class FakeBackend:
    """`script`: for each start, how many polls the job lives and how it ends; the last entry repeats."""

    script: list[tuple[int, job.ExitStatus]]
    name: str = "fake"
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    most_alive: int = 0
    lose_answers: int = 0
    """So many submits start their job and then say nothing."""
    cannot_start: int = 0
    """So many submits fail for a reason that lies with us."""
    refuses: str = ""
    """Every submit is refused for good, with these words."""
    lose_questions: int = 0
    """So many submits start nothing and say nothing."""
    asked: int = 0
    blind_polls: int = 0

    def submit(self, spec, token):
        if any(one.token == token for one in self.jobs.values()):
            raise ports.ContactLost("the token is taken")
        self.asked += 1
        if self.refuses:
            raise errors.UsageError(self.refuses)
        if self.lose_questions > 0:
            self.lose_questions -= 1
            raise ports.ContactLost("the engine is busy")
        if self.cannot_start > 0:
            self.cannot_start -= 1
            raise errors.InternalError("no space left for the attempt's folder")
        lives, status = self.script[min(len(self.jobs), len(self.script) - 1)]
        handle = f"job-{len(self.jobs) + 1}"
        self.jobs[handle] = FakeJob(token, spec.argv, lives, status)
        self.most_alive = max(self.most_alive, sum(not one.ended for one in self.jobs.values()))
        if self.lose_answers > 0:
            self.lose_answers -= 1
            raise ports.ContactLost("no answer")
        return handle

    def find(self, token):
        return next((handle for handle, one in self.jobs.items() if one.token == token), None)

    def poll(self, jobs):
        if self.blind_polls > 0:
            self.blind_polls -= 1
            return {handle: job.Unseen("timed out", 0.0) for handle in jobs}
        return {handle: self._status(self.jobs[handle]) for handle in jobs}

    def _status(self, one):
        if not one.ended and one.asked:
            one.ended, one.exit = True, job.ExitStatus(None, one.asked[-1].signum)
        if not one.ended:
            one.polls_left -= 1
            one.ended = one.polls_left < 0
        if not one.ended:
            return job.JobStatus(job.JobState.RUNNING)
        good = one.exit.code == 0
        return job.JobStatus(job.JobState.SUCCEEDED if good else job.JobState.FAILED, exit=one.exit)

    def cancel(self, job_id, plan):
        self.jobs[job_id].asked.append(plan)

    def logs(self, job_id):
        return ()
