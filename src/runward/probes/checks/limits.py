"""Limits of this process that a training would inherit."""

import resource

from runward.core import durations, findings

_UNLIMITED = resource.RLIM_INFINITY


def check() -> list[findings.Finding]:
    """One finding a limit that trainings stumble over."""
    found = []
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    low = files != _UNLIMITED and files < 4096
    text = f"open files: {'unlimited' if files == _UNLIMITED else files}"
    fix = "ulimit -n 65536, or LimitNOFILE= of the service" if low else ""
    found.append(findings.Finding("limits", findings.Level.WARN if low else findings.Level.OK, text, fix))
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if locked != _UNLIMITED and locked < 64 << 20:
        text = f"locked memory: {durations.format_size(locked)}; InfiniBand needs it unlimited"
        found.append(findings.Finding("limits", findings.Level.OK, text, "ulimit -l unlimited"))
    size = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if size != _UNLIMITED:
        text = f"file size: at most {durations.format_size(size)}; a larger checkpoint ends the training (SIGXFSZ)"
        found.append(findings.Finding("limits", findings.Level.WARN, text, "ulimit -f unlimited"))
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if processes != _UNLIMITED and processes < 1024:
        text = f"processes of this user: at most {processes}"
        found.append(findings.Finding("limits", findings.Level.WARN, text, "ulimit -u 65536"))
    return found
