"""The Docker daemon's own words around an instant, from the journal."""

from dataclasses import dataclass

from runward import ports


@dataclass(frozen=True, slots=True)
class EngineLog:
    """What could be read of it, or why nothing could."""

    lines: tuple[str, ...] = ()
    blind: str = ""


def read(runner: ports.Runner, begin: float, end: float, *, errors_only: bool = False) -> EngineLog:
    """The daemon's lines between two instants (seconds since the epoch), the last 200. Never raises."""
    argv = (
        *("journalctl", "-u", "docker.service", "-u", "podman.service", "--no-pager"),
        *("-o", "short-iso", "-n", "200", "--since", f"@{int(begin)}", "--until", f"@{int(end) + 1}"),
    )
    try:
        done = runner.run(ports.Call(argv, deadline_s=5.0, limit=1 << 20))
    except ports.ContactLost as lost:
        return EngineLog(blind=str(lost))
    if not done.ok:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = words[-1][:200].removeprefix("journalctl: ") if words else f"exit {done.code}"
        return EngineLog(blind=f"journalctl: {why}")
    if "No journal files" in done.stderr.decode("utf-8", "replace"):
        return EngineLog(blind="journalctl: no journal files were found")
    lines = tuple(line for line in done.text.splitlines() if not line.startswith("-- "))
    if errors_only:
        lines = tuple(
            line for line in lines if any(w in line.lower() for w in ("error", "kill", "oom", "fatal"))
        )
    return EngineLog(lines)
