"""Can the engine be reached, and will its logs and containers survive what is coming?"""

from collections.abc import Mapping
from typing import Any

from runward import ports
from runward.backends.docker import client
from runward.core import findings

_SETUP = "sudo runward setup docker-logging"


def check(engine: client.Engine, deadline_s: float = 5.0) -> list[findings.Finding]:
    """Findings about the engine; one of level `unseen` when there is none."""
    try:
        info = engine.json(client.Request("GET", "/info", deadline_s=deadline_s))
    except client.NoAnswer as error:
        step = "Look at it before a run needs it: systemctl status docker"
        return [findings.Finding("docker", findings.Level.WARN, str(error), step)]
    except (ports.ContactLost, client.EngineError) as error:
        return [
            findings.Finding("docker", findings.Level.UNSEEN, str(error), "Where Docker is not used: nothing")
        ]
    return [_reached(engine, info), _logging(info), *_live_restore(info), *_gpu_runtime(info)]


def _reached(engine: client.Engine, info: Mapping[str, Any]) -> findings.Finding:
    text = f"engine {info.get('ServerVersion')} answers at {engine.name}, cgroup v{info.get('CgroupVersion', '?')}"
    return findings.Finding("docker", findings.Level.OK, text)


def _logging(info: Mapping[str, Any]) -> findings.Finding:
    driver = str(info.get("LoggingDriver") or "unknown")
    if driver in {"json-file", "local", "journald", "k8s-file"}:
        return findings.Finding("docker", findings.Level.OK, f"log driver {driver}: logs stay after an end")
    text = f"log driver {driver}: logs cannot be read after an end"
    return findings.Finding("docker", findings.Level.WARN, text, _SETUP)


def _live_restore(info: Mapping[str, Any]) -> list[findings.Finding]:
    if info.get("LiveRestoreEnabled") is not False:
        return []
    text = "live-restore is off: a restart of the engine ends all containers"
    return [findings.Finding("docker", findings.Level.WARN, text, _SETUP)]


def _gpu_runtime(info: Mapping[str, Any]) -> list[findings.Finding]:
    runtimes = info.get("Runtimes") or {}
    named = "nvidia" in runtimes
    text = "runtime nvidia is registered" if named else "runtime nvidia is not registered (CDI or no GPUs?)"
    return [findings.Finding("docker", findings.Level.OK, text)]
