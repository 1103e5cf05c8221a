"""A stand-in for Slurm's commands: jobs are processes of this machine, what is known of them lies in a folder."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

HOME = Path(os.environ.get("STAND_IN_SLURM", "."))
COMMANDS = ("sbatch", "squeue", "sacct", "scontrol", "scancel")
_RUN = '"$@" >"$OUT" 2>&1 </dev/null; code=$?; echo $code >"$EXIT.tmp"; mv "$EXIT.tmp" "$EXIT"'


def install(folder: Path) -> dict[str, str]:
    """Make the commands in `folder`; the environment that finds them."""
    (folder / "bin").mkdir(parents=True)
    for name in COMMANDS:
        path = folder / "bin" / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} "$@"\n')
        path.chmod(0o755)
    return {"STAND_IN_SLURM": str(folder), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def _jobs() -> list[dict]:
    return [_job(path) for path in sorted(HOME.glob("job-*.json"), key=lambda one: int(one.stem[4:]))]


def _job(path: Path) -> dict:
    body = json.loads(path.read_text())
    body["state"], body["code"] = "RUNNING", "0:0"
    done = path.with_suffix(".exit")
    if path.with_suffix(".cancelled").exists():
        body["state"], body["code"] = "CANCELLED", "0:15"
    elif done.exists():
        code = int(done.read_text())
        body["state"], body["code"] = ("FAILED" if code else "COMPLETED"), f"{code}:0"
    return body


def sbatch(words: list[str]) -> None:
    options = []
    while words and words[0].startswith("-"):
        options.append(words.pop(0))
    comment = next((one.partition("=")[2] for one in options if one.startswith("--comment=")), "")
    number = len(list(HOME.glob("job-*.json"))) + 1
    path, cwd = HOME / f"job-{number}.json", os.getcwd()
    out = f"{cwd}/slurm-{number}.out"
    env = {**os.environ, "OUT": out, "EXIT": str(path.with_suffix(".exit")), "SLURM_JOB_ID": str(number)}
    script = [os.path.join(cwd, words[0]), *words[1:]]
    child = subprocess.Popen(
        ["/bin/sh", "-c", _RUN, "sh", *script],
        env=env,
        cwd=cwd,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    body = {"id": number, "pid": child.pid, "comment": comment, "cwd": cwd, "out": out, "argv": script}
    path.with_suffix(".tmp").write_text(json.dumps(body))
    path.with_suffix(".tmp").rename(path)
    print(number if "--parsable" in options else f"Submitted batch job {number}")


def squeue(words: list[str]) -> None:
    wanted = set(words[words.index("-j") + 1].split(",")) if "-j" in words else None
    fields = [one.split(":", 1) for one in words[words.index("--Format") + 1].split(",")]
    for job in _jobs():
        if wanted is not None and str(job["id"]) not in wanted:
            continue
        known = {
            "JobArrayID": job["id"],
            "JobID": job["id"],
            "State": job["state"],
            "RestartCnt": 0,
            "exit_code": job["code"],
            "UserID": os.getuid(),
            "STDOUT": job["out"],
            "STDERR": job["out"],
            "WorkDir": job["cwd"],
            "Name": "stand-in",
            "Comment": job["comment"],
            "NodeList": "n1",
        }
        print("".join(f"{known.get(name, '')}{separator}" for name, separator in fields))


def sacct(_: list[str]) -> None:
    sys.exit("Slurm accounting storage is disabled")


def scontrol(words: list[str]) -> None:
    job = next((one for one in _jobs() if str(one["id"]) == words[-1]), None)
    if job is None:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    command = " ".join(job["argv"])
    print(
        f"JobId={job['id']} JobName=stand-in UserId=me({os.getuid()}) JobState={job['state']} Restarts=0 "
        f"ExitCode={job['code']} Comment={job['comment']} Command={command} WorkDir={job['cwd']} StdOut={job['out']}"
    )


def scancel(words: list[str]) -> None:
    job = next(one for one in _jobs() if str(one["id"]) == words[-1])
    if job["state"] != "RUNNING":
        return
    (HOME / f"job-{job['id']}.cancelled").touch()
    os.killpg(job["pid"], signal.SIGKILL)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:])
