"""systemd units of our own long-lived verbs. What they end is themselves, never a training."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is true of a verb as a service."""

    title: str
    words: tuple[str, ...]
    starts_trainings: bool = False
    score: int = -500
    """Of the kernel when memory is short; what only shows goes before a training."""
    does: str = ""
    """What it does with the runs of its account, if anything."""


_KINDS = {
    "record": _Kind("Runward: snapshots of this box", ("record",)),
    "serve": _Kind("Runward: pages, JSON and metrics over HTTP", ("serve",), score=200, does="shows"),
    "watch": _Kind(
        "Runward: watcher of all runs", ("watch", "--keep"), starts_trainings=True, does="watches"
    ),
}
VERBS = tuple(_KINDS)

_REACHES = (
    *("PATH", "SLURM_CONF", "RAY_API_SERVER_ADDRESS"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"),
)
_OWN = (
    *("RUNWARD_STATE_DIR", "RUNWARD_CONFIG_DIR", "RUNWARD_CACHE_DIR", "RUNWARD_INVENTORY"),
    *("XDG_STATE_HOME", "XDG_CONFIG_HOME", "KUBECONFIG", "RAY_AUTH_TOKEN_PATH"),
    *("DOCKER_CERT_PATH", "DOCKER_CONFIG"),
)


@dataclass(frozen=True, slots=True)
class Service:
    """One unit."""

    verb: str
    """One of `VERBS`."""
    program: tuple[str, ...]
    """The command that starts us, without the verb."""
    user: bool = False
    """A unit of the user's own manager."""
    args: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that a manager would not give by itself, see `carried`."""
    account: str = ""
    """System units: the account to run as; empty: root."""

    @property
    def name(self) -> str:
        """File name of the unit."""
        return name_of(self.verb)

    @property
    def does(self) -> str:
        """`watches` or `shows`, where it does that with the runs of its account; else empty."""
        return _KINDS[self.verb].does


def name_of(verb: str) -> str:
    """File name of the verb's unit."""
    return f"runward-{verb}.service"


def session_of(verb: str) -> str:
    """Name of the verb's tmux session."""
    return f"runward-{verb}"


def carried(env: Mapping[str, str], *, same_account: bool) -> tuple[tuple[str, str], ...]:
    """What the installing shell reaches the service reaches too: where commands, engines and our own folders are.

    Never a secret: units are readable for all. Another account has folders of its own.
    """
    names = (*_REACHES, *(_OWN if same_account else ()))
    found = {name: env[name] for name in names if env.get(name)}
    if "PATH" in found:
        places = [place for place in found["PATH"].split(":") if place.startswith("/")]
        found["PATH"] = ":".join(dict.fromkeys(places))
    return tuple((name, value) for name, value in found.items() if value.isprintable())


def unit(service: Service) -> str:
    """The unit's text."""
    kind = _KINDS[service.verb]
    lines = [
        "[Unit]",
        f"Description={kind.title}",
        *(() if service.user else _AFTER),
        "StartLimitIntervalSec=0",  # a full disk or a late mount heals: nobody looks at a service that gave up
        "",
        "[Service]",
        *_command(service, kind),
        *_life(kind),
        *(() if service.user and kind.score < 0 else (f"OOMScoreAdjust={kind.score}",)),
        "UMask=0077",
        *(_ROOM if kind.starts_trainings else () if service.user else _HARDENING),
        "LockPersonality=yes",
        "",
        "[Install]",
        f"WantedBy={'default.target' if service.user else 'multi-user.target'}",
    ]
    return "\n".join(lines) + "\n"


_AFTER = ("After=network-online.target docker.service", "Wants=network-online.target")


def _command(service: Service, kind: _Kind) -> Iterator[str]:
    """What is started, as whom, with which variables."""
    quiet = ("--quiet",) if service.verb == "record" else ()
    words = (*service.program, *kind.words, *quiet, *service.args)
    yield f"ExecStart={' '.join(_quoted(word) for word in words)}"
    if not service.user:
        yield f"User={service.account or 'root'}"  # named: then it has HOME, as kubectl needs it
    yield from (f"Environment={_assigned(name, value)}" for name, value in service.environment)


def _life(kind: _Kind) -> tuple[str, ...]:
    """How it begins, ends and begins again.

    The watchdog is fed by the verb itself, only when a round of its work was finished. A kill for memory in the
    unit is a training's, which its watcher has to survive.
    """
    return (
        "Type=notify",
        "NotifyAccess=main",
        "WatchdogSec=3min",
        f"KillMode={'process' if kind.starts_trainings else 'mixed'}",
        "KillSignal=SIGTERM",
        "TimeoutStopSec=30s",
        "Restart=always",
        "RestartSec=10s",
        "OOMPolicy=continue",
    )


_ROOM = (
    "TasksMax=infinity",
    "LimitNOFILE=1024:1048576",
    "LimitNPROC=infinity",
    "LimitMEMLOCK=infinity",
)
"""A training that a watcher starts again inherits what the watcher may, and login sessions may more than services.
For the same reason nothing is forbidden to it: no ProtectHome, no PrivateTmp, no NoNewPrivileges."""

_HARDENING = (
    "NoNewPrivileges=yes",
    "ProtectSystem=full",
    "ProtectKernelTunables=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "RestrictSUIDSGID=yes",
    "RestrictRealtime=yes",
    "RestrictNamespaces=yes",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "SystemCallArchitectures=native",
    "CapabilityBoundingSet=~CAP_NET_ADMIN CAP_NET_RAW CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_SETPCAP CAP_SETFCAP",
    "CapabilityBoundingSet=~CAP_SYS_BOOT CAP_SYS_TIME CAP_SYS_CHROOT CAP_SYS_PACCT CAP_SYS_TTY_CONFIG CAP_KILL",
    "CapabilityBoundingSet=~CAP_SETUID CAP_SETGID CAP_AUDIT_CONTROL CAP_AUDIT_READ CAP_AUDIT_WRITE CAP_MAC_ADMIN",
    "CapabilityBoundingSet=~CAP_MAC_OVERRIDE CAP_LINUX_IMMUTABLE CAP_LEASE CAP_BLOCK_SUSPEND CAP_WAKE_ALARM",
)
"""A record only looks: at all processes, the kernel's log, the engine's socket and the GPUs, whose library may have to
load the driver first; and it writes where it is told to, in homes too. Pages need to write beside a state, to ask who
holds a lock in it."""


def tmux(service: Service) -> tuple[str, ...]:
    """The same on a box without systemd: a detached session that starts it again when it ends.

    The session's shell is named, as the account's own need not know `while`. It ends the verb with the session:
    a watcher takes no notice of a terminal that hangs up.
    """
    words = (*service.program, *_KINDS[service.verb].words, *service.args)
    named = [f"{name}={value}" for name, value in service.environment]
    command = shlex.join([*(("env", *named) if named else ()), *words])
    end = 'trap "kill \\$p; wait \\$p; exit" HUP INT TERM'
    loop = f"{end}; while :; do {command} & p=$!; wait $p; sleep 10 & p=$!; wait $p; done"
    return ("tmux", "new-session", "-d", "-s", session_of(service.verb), "/bin/sh", "-c", loop)


def _assigned(name: str, value: str) -> str:
    """A variable as `Environment=` takes it: specifiers are read there, variables are not."""
    escaped = f"{name}={value}".replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if any(char in escaped for char in " \t'\";\\") else escaped


def _quoted(word: str) -> str:
    """A word of a unit's command line: quotes, and no specifiers or variables."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if not word or any(char in word for char in " \t'\";") else escaped
