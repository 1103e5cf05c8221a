"""systemd units of our own long-lived verbs. What they end is themselves, never a training."""

from dataclasses import dataclass

_TITLES = {
    "record": "Runward: snapshots of this box",
    "watch": "Runward: watcher of all runs",
}


_VERBS = {"watch": ("watch", "--keep"), "record": ("record",)}


@dataclass(frozen=True, slots=True)
class Service:
    """One unit."""

    verb: str
    """`record` or `watch`."""
    program: tuple[str, ...]
    """The command that starts us, without the verb."""
    user: bool = False
    """A unit of the user's own manager."""
    args: tuple[str, ...] = ()
    state_folder: str = ""
    """RUNWARD_STATE_DIR of the service; empty: the default."""
    account: str = ""
    """System units: the account to run as; empty: root."""

    @property
    def name(self) -> str:
        """File name of the unit."""
        return f"runward-{self.verb}.service"


def unit(service: Service) -> str:
    """The unit's text.

    KillMode=process: keepers and trainings are children of a watcher and must outlive it. No ProtectHome and no
    PrivateTmp: logs and checkpoints lie in homes and /tmp. The watchdog is fed by the verb itself, only when a
    round of its work was finished.
    """
    quiet = ("--quiet",) if service.verb == "record" else ()
    words = (*service.program, *_VERBS[service.verb], *quiet, *service.args)
    command = " ".join(_quoted(word) for word in words)
    lines = [
        "[Unit]",
        f"Description={_TITLES[service.verb]}",
        *(
            []
            if service.user
            else ["After=network-online.target docker.service", "Wants=network-online.target"]
        ),
        "StartLimitIntervalSec=10min",
        "StartLimitBurst=10",
        "",
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        "WatchdogSec=3min",
        f"ExecStart={command}",
        *([f"User={service.account}"] if service.account and not service.user else []),
        *(
            [f"Environment={_quoted('RUNWARD_STATE_DIR=' + service.state_folder)}"]
            if service.state_folder
            else []
        ),
        "KillMode=process" if service.verb == "watch" else "KillMode=mixed",
        "KillSignal=SIGTERM",
        "TimeoutStopSec=30s",
        "Restart=always",
        "RestartSec=10s",
        "OOMScoreAdjust=-500" if not service.user else "OOMPolicy=continue",
        "UMask=0077",
        *_hardening(service),
        "",
        "[Install]",
        f"WantedBy={'default.target' if service.user else 'multi-user.target'}",
    ]
    return "\n".join(lines) + "\n"


def _hardening(service: Service) -> list[str]:
    if service.user or service.verb == "watch":
        # A watcher starts trainings, and what it may not do they may not do either.
        return ["LockPersonality=yes"]
    return [
        "NoNewPrivileges=yes",
        "LockPersonality=yes",
        "ProtectSystem=full",
        "ProtectKernelModules=yes",
        "ProtectControlGroups=yes",
        "RestrictSUIDSGID=yes",
        "RestrictRealtime=yes",
    ]


def tmux(service: Service) -> tuple[str, ...]:
    """The same on a box without systemd: a detached session that starts it again when it ends."""
    command = " ".join(_shell(word) for word in (*service.program, *_VERBS[service.verb], *service.args))
    loop = f"while :; do {command}; sleep 10; done"
    return ("tmux", "new-session", "-d", "-s", f"runward-{service.verb}", loop)


def _quoted(word: str) -> str:
    """A word of a unit's command line: quotes, and no specifiers or variables."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if any(char in word for char in " \t'\";") else escaped


def _shell(word: str) -> str:
    return (
        word
        if word and all(c.isalnum() or c in "/._-=:+,@" for c in word)
        else "'" + word.replace("'", "'\\''") + "'"
    )
