"""The clock, the GPUs' driver, a port that a rendezvous will want."""

import errno
import socket

from runward import ports
from runward.core import findings
from runward.probes import gpu_table


def clock(runner: ports.Runner) -> list[findings.Finding]:
    """Whether the clock is kept right; logs of several machines are ordered by it."""
    done = runner.run(ports.Call(("timedatectl", "show", "-p", "NTPSynchronized", "--value"), deadline_s=3.0))
    if not done.ok:
        why = (done.stderr.decode("utf-8", "replace").strip() or "no answer").splitlines()[-1]
        return [findings.Finding("clock", findings.Level.UNSEEN, f"timedatectl: {why[:160]}")]
    if done.text.strip() == "yes":
        return [findings.Finding("clock", findings.Level.OK, "synchronised by NTP")]
    fix = "timedatectl set-ntp true, or install chrony"
    return [
        findings.Finding("clock", findings.Level.WARN, "not synchronised: times of machines will differ", fix)
    ]


def gpus(runner: ports.Runner, *, deadline_s: float = 10.0) -> list[findings.Finding]:
    """GPUs answer, and have memory left before anything starts."""
    found, why = gpu_table.read(runner, deadline_s)
    if why:
        silent = "did not answer" in why
        level = findings.Level.FAIL if silent else findings.Level.UNSEEN
        return [
            findings.Finding("gpu", level, why, "Look at the kernel's log for Xid lines" if silent else "")
        ]
    findings_ = []
    for gpu in found:
        used, total = gpu.mem_used_mib, gpu.mem_total_mib
        text = f"GPU {gpu.index} {gpu.name}: {used or 0:.0f} of {total or 0:.0f} MiB used"
        taken = used is not None and total is not None and used > 0.1 * total
        fix = "Somebody's process holds it: nvidia-smi, then runward gpus" if taken else ""
        findings_.append(
            findings.Finding("gpu", findings.Level.WARN if taken else findings.Level.OK, text, fix)
        )
    return findings_


def port(number: int) -> list[findings.Finding]:
    """Whether a rendezvous port of this machine is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", number))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return [findings.Finding("port", findings.Level.UNSEEN, f"port {number}: {error.strerror}")]
            fix = f"Choose another MASTER_PORT, or see who holds it: ss -ltnp 'sport = :{number}'"
            return [findings.Finding("port", findings.Level.WARN, f"port {number} is in use", fix)]
    return [findings.Finding("port", findings.Level.OK, f"port {number} is free")]
