"""One live run a checkpoint directory: `.runward-owner` says whose it is, and is believed only while that lives."""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runward.core import errors

FILE = ".runward-owner"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who writes into a checkpoint directory."""

    run: str
    attempt: int
    host: str
    boot_id: str
    state_dir: str
    keeper_pid: int | None = None


Alive = Callable[[Owner], bool | None]
"""Whether an owner's attempt lives; None when that cannot be told from here."""


def read(directory: str) -> Owner | None:
    """The owner written in `directory`; None when there is none or it cannot be read as one."""
    try:
        with open(os.path.join(directory, FILE), encoding="utf-8") as file:
            body: Mapping[str, Any] = json.loads(file.read(65536))
        return Owner(**{key: body[key] for key in Owner.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check(directory: str, mine: Owner, alive: Alive) -> None:
    """Refuse a directory into which another live run writes.

    Raises UsageError naming the owner and the way out.
    """
    owner = read(directory)
    if owner is None or (owner.run, owner.state_dir) == (mine.run, mine.state_dir):
        return
    living = alive(owner)
    if living is False:
        return
    how = "writes" if living else "may write (it runs on another machine and cannot be asked from here)"
    raise taken(directory, owner.run, f"of {owner.host} {how}")


def taken(directory: str, name: str, how: str) -> errors.UsageError:
    """The refusal of a directory that another run writes into."""
    return errors.UsageError(
        errors.Problem(
            f"run {name!r} {how} into it",
            where=f"--checkpoints {directory}",
            next_step=f"Look at it with `runward status {name}` there; choose another directory, or say"
            " --take-over after you have looked.",
        )
    )


def claim(directory: str, mine: Owner) -> None:
    """Write `mine` into the directory, which is made when it does not exist. Raises OSError."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, FILE)
    scratch = f"{path}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(scratch, flags, 0o644), "w", encoding="utf-8") as file:
        file.write(json.dumps(asdict(mine)) + "\n")
    os.replace(scratch, path)


def release(directory: str, mine: Owner) -> None:
    """Remove the claim if it is ours."""
    owner = read(directory)
    if owner is not None and (owner.run, owner.state_dir) == (mine.run, mine.state_dir):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(directory, FILE))
