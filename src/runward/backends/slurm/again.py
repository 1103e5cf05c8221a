"""The options with which a job that somebody else submitted is submitted again, by what Slurm shows of it. Pure.

What stood on sbatch's command line wins over the script's own lines, and Slurm keeps only what came of both.
"""

import itertools
import os
import re
import shlex
from collections.abc import Mapping

from runward.backends.slurm import records

_PLAIN: Mapping[str, str] = {
    "JobName": "--job-name",
    "Partition": "--partition",
    "Account": "--account",
    "QOS": "--qos",
    "TimeLimit": "--time",
    "NumNodes": "--nodes",
    "NumTasks": "--ntasks",
    "CPUs/Task": "--cpus-per-task",
    "MinMemoryNode": "--mem",
    "MinMemoryCPU": "--mem-per-cpu",
    "ReqNodeList": "--nodelist",
    "Features": "--constraint",
    "Reservation": "--reservation",
    "Licenses": "--licenses",
}
_NOT_ASKED = frozenset({"", "0", "UNLIMITED"})
_GPUS: Mapping[str, str] = {
    "TresPerJob": "--gpus",
    "TresPerSocket": "--gpus-per-socket",
    "TresPerTask": "--gpus-per-task",
    "CpusPerTres": "--cpus-per-gpu",
    "MemPerTres": "--mem-per-gpu",
}
_GPU = re.compile(r"(?:^|,)(?:gres[:/])?gpu[:=](?P<amount>[^,]+)")
_WORDS: Mapping[tuple[str, str], str] = {
    ("Requeue", "0"): "--no-requeue",
    ("Requeue", "1"): "--requeue",
    ("OverSubscribe", "NO"): "--exclusive",
    ("OverSubscribe", "USER"): "--exclusive=user",
    ("OverSubscribe", "YES"): "--oversubscribe",
}


_UNSHOWN = ("--signal", "--export", "--export-file")


def unshown(line: str, script: str) -> list[str]:
    """Of the command line that submitted `script`, the options that Slurm shows nowhere else.

    >>> unshown("sbatch --export ALL,LR=0.1 --time=1 --signal=B:USR1@60 job.sh --signal=x", "/home/ann/job.sh")
    ['--export=ALL,LR=0.1', '--signal=B:USR1@60']
    >>> unshown("", "/home/ann/job.sh")
    []
    """
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    name = os.path.basename(script)
    end = next((at for at, word in enumerate(words) if at and os.path.basename(word) == name), len(words))
    found = []
    given = words[1:end]
    for word, following in itertools.pairwise([*given, ""]):
        option, equals, value = word.partition("=")
        if option in _UNSHOWN:
            found.append(f"{option}={value if equals else following}")
    return found


def options(shown: Mapping[str, str], record: records.Record) -> list[str]:
    """Options of sbatch for the same again; `shown` is what `scontrol show job` has of it.

    >>> found = options({"TresPerNode": "gres:gpu:8", "NumNodes": "2", "Requeue": "0"}, records.Record("1", "RUNNING"))
    >>> found
    ['--nodes=2', '--gres=gpu:8', '--no-requeue']
    """
    found = [
        f"{option}={shown[key]}" for key, option in _PLAIN.items() if shown.get(key, "") not in _NOT_ASKED
    ]
    per_node = re.fullmatch(r"([1-9]\d*):.*", shown.get("NtasksPerN:B:S:C", ""))
    found += [f"--ntasks-per-node={per_node[1]}"] if per_node else []
    gres = re.sub(r"(^|,)gres[:/]", r"\1", shown.get("TresPerNode", ""))
    found += [f"--gres={gres}"] if gres else []
    for key, option in _GPUS.items():
        gpu = _GPU.search(shown.get(key, ""))
        found += [f"{option}={gpu['amount'].replace('=', ':')}"] if gpu else []
    found += [option for (key, word), option in _WORDS.items() if shown.get(key) == word]
    task = shown.get("ArrayTaskId", "")
    found += [f"--array={task}-{task}"] if task.isdigit() else []
    return found + [
        f"{option}={path}" for option, path in zip(("--output", "--error"), record.outputs, strict=False)
    ]
