"""How long from a SIGKILL to the decision, and to the next attempt."""

import time

from bench import place

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


def deaths(seconds: float) -> dict:
    """Milliseconds from the SIGKILL to the decision in the journal, and until the next attempt is exec'd."""
    here = place.Place()
    policy = here.work / "always.yaml"
    policy.write_text(
        "kind: policy\nversion: 1\nbudget: {without_progress: 1000, per_day: 1000}\n"
        "backoff: {first: 0s, base: 0s}\nrules:\n  - {action: restart}\n"
    )
    here.runward(
        "run", "--name", "bench", "--checkpoints", "ckpt", "--resume-by", "env", "--policy", str(policy), "--detach",
        "--", place.PYTHON, "-S", "-c", DYING,
    )  # fmt: skip
    time.sleep(seconds)
    here.runward("stop", "bench", "--now")
    died = [float(line) for line in (here.work / "deaths").read_text().split()]
    decided = {e["attempt"]: place.instant(e["at"]) for e in here.events() if e["kind"] == "decided"}
    began = {e["attempt"]: place.instant(e["at"]) for e in here.events() if e["kind"] == "attempt_started"}
    here.close()
    to_decision = [(decided[n] - at) * 1000 for n, at in enumerate(died, 1) if n in decided]
    to_exec = [(began[n + 1] - at) * 1000 for n, at in enumerate(died, 1) if n + 1 in began]
    return {"to_decision_ms": place.spread(to_decision), "to_exec_ms": place.spread(to_exec)}


def rows(found: dict) -> list[place.Row]:
    """As `start_up.rows`."""
    return [
        ("crash to decision, median", found["to_decision_ms"]["median"], 50, "ms"),
        ("crash to exec, median", found["to_exec_ms"]["median"], 150, "ms"),
    ]
