"""The list of checks. Another area adds its module under `probes/checks` and a line here."""

import os
from collections.abc import Sequence

from runward.app import doctor
from runward.core import findings
from runward.probes.checks import limits, machine, memory, storage
from runward.runners import local
from runward.wiring import gpus

_SCRATCH = "/tmp"  # noqa: S108 -- named, not used: every program writes there
_ANYWHERE = (os.curdir, "/", _SCRATCH)
"""Looked at for their room when no path is named."""


def checks(paths: Sequence[str], port: int | None = None) -> list[doctor.Check]:
    """All checks of `runward doctor`."""
    runner = local.Local()
    return [
        *_quick(paths or _ANYWHERE, paths or (_SCRATCH,), port, runner),
        doctor.Check("docker", _docker),
        doctor.Check("clock", lambda: machine.clock(runner)),
        doctor.Check("gpu", gpus.doctor_findings),
    ]


def _quick(
    paths: Sequence[str], written: Sequence[str], port: int | None, runner: local.Local
) -> list[doctor.Check]:
    asked = [
        doctor.Check("disk", lambda: storage.check(paths, written)),
        doctor.Check("memory", memory.check),
        doctor.Check("limits", limits.check),
        doctor.Check("gpu", lambda: machine.gpus(runner, deadline_s=8.0)),
    ]
    if port is not None:
        asked.append(doctor.Check("port", lambda: machine.port(port)))
    return asked


def examine(
    paths: Sequence[str] = (), port: int | None = None, deadline_s: float = 15.0
) -> list[findings.Finding]:
    """Everything about this box, and the paths that a run will use."""
    return doctor.examine(checks(paths, port), deadline_s)


def for_run(paths: Sequence[str], port: int | None = None, deadline_s: float = 2.0) -> list[findings.Finding]:
    """What a run that starts now should know, within `deadline_s`: warnings and failures only.

    To be called in the background while the command starts; a check that is late is left out.
    """
    found = doctor.examine(_quick(paths, paths, port, local.Local()), deadline_s)
    return [one for one in found if one.level in {findings.Level.WARN, findings.Level.FAIL}]


def _docker() -> list[findings.Finding]:
    from runward.backends.docker import check
    from runward.wiring import docker

    engine = docker.Docker()
    try:
        found = check.check(engine.engine)
        if engine.place.local and found[0].level is findings.Level.OK:
            found += storage.check([engine.data_root()], ())  # its owner is the engine, not this user
        return found
    finally:
        engine.close()
