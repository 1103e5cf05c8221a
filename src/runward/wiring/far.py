"""Far boxes of the command line: targets and inventories to runners, and the probe that they are asked with."""

import os
from collections.abc import Sequence
from functools import cache

from runward import ports
from runward.core import errors, inventory
from runward.wiring import places

HERE = "local"


@cache
def probe() -> str:
    """The text of the probe."""
    import runward

    path = os.path.join(os.path.dirname(runward.__file__), "probes", "probe.sh")
    with open(path, encoding="utf-8") as file:
        return file.read()


def runner(host: str) -> ports.Runner:
    """The runner of a host; `local` is this machine. Raises UsageError for a host that is none."""
    from runward.runners import local

    if host == HERE:
        return local.Local()
    from runward.runners import ssh

    folder = os.environ.get("RUNWARD_SSH_SHARED")
    return ssh.Ssh(host, local.Local(), ssh.Link(control_dir=folder or None))


def host_of(target: str) -> str:
    """The host of `ssh:HOST/` or `HOST`. Raises UsageError for what is none."""
    from runward.runners import ssh

    return ssh.check_host(target.removeprefix("ssh:").removesuffix("/"))


def path_of(rest: str, where: str) -> str:
    """The path of `ssh:HOST/PATH`: absolute, or below the home directory as `~/...`. Raises UsageError."""
    if not rest:
        raise errors.UsageError(
            errors.Problem("no path", where=where, next_step="Write ssh:HOST/absolute/path.")
        )
    return rest if rest.startswith("~/") else f"/{rest}"


def inventory_path(given: str | None) -> str | None:
    """The inventory: given, else `$RUNWARD_INVENTORY`, else `hosts.yaml` of the configuration directory if there."""
    if given:
        return given
    own = os.environ.get("RUNWARD_INVENTORY")
    if own:
        return own
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = os.path.join(base, "runward", "hosts.yaml")
    return path if os.path.exists(path) else None


def load(given: str | None) -> inventory.Inventory:
    """All boxes known; none when there is no inventory. Raises UsageError."""
    path = inventory_path(given)
    if path is None:
        return inventory.Inventory(())
    from runward.config import inventories

    return inventories.load(path)


def boxes(targets: Sequence[str], given: str | None) -> tuple[inventory.Box, ...]:
    """`ssh:HOST/`, `local:` and names of the inventory; all of the inventory when there are none."""
    known = load(given)
    if not targets:
        if not known.boxes:
            raise errors.UsageError(
                errors.Problem(
                    "no box is named, and there is no inventory",
                    next_step="patrol takes ssh:HOST/; patrol and fleet take --inventory hosts.yaml, or"
                    " ~/.config/runward/hosts.yaml.",
                )
            )
        return known.boxes
    return tuple(_box(target, known) for target in targets)


def _box(target: str, known: inventory.Inventory) -> inventory.Box:
    by_name = {box.name: box for box in known.boxes}
    if target in by_name:
        return by_name[target]
    if target.startswith("ssh:"):
        from runward.runners import ssh

        host, _, rest = target[4:].partition("/")
        if rest:
            raise errors.UsageError(
                errors.Problem(f"{rest!r} after the host", where=target, next_step="Write ssh:HOST/ alone.")
            )
        return by_name.get(host) or inventory.Box(host, ssh.check_host(host))
    if target in {"local:", HERE}:
        return inventory.Box(HERE, HERE)
    raise errors.UsageError(
        errors.Problem(
            f"{target!r} is no box",
            nearest=errors.nearest(target, by_name),
            next_step="Write ssh:HOST/, local: or a name of the inventory.",
        )
    )


def folder(kind: str) -> str:
    """Our own small files of a kind (`patrol`, `waiters`, `handbooks`), mode 0700."""
    path = os.path.join(places.state_dir(), kind)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def safe_name(text: str) -> str:
    """`text` as one file name."""
    plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in text)[:80].lstrip(".")
    if plain == text:
        return plain
    import hashlib

    return f"{plain}-{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
