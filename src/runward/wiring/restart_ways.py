"""The ways in which a scheduler's job goes on: as a new job, or the same one queued again under its id."""

from collections.abc import Mapping
from typing import Any

from runward.core import errors


def checked(place: str, given: Mapping[str, Any]) -> str | None:
    """How the trainer learns what to load, as far as the way decides it. Raises UsageError where both cannot be."""
    if given["restart_by"] != "requeue":
        return _told(given)
    if place != "slurm":
        raise errors.UsageError(
            errors.Problem(
                f"{place} has no requeue", "--restart-by", next_step="Leave it: a new job goes on."
            )
        )
    if given.get("act") is False:
        raise errors.UsageError(errors.Problem("without --act nothing is restarted", "--restart-by"))
    if given["resume_arg"] or _told(given) not in (None, "self"):
        raise errors.UsageError(
            errors.Problem(
                "a job that is queued again starts with its old arguments and environment",
                "--restart-by requeue",
                next_step="Let the trainer look for its checkpoint itself (--resume-by self), "
                "or restart by submit.",
            )
        )
    return "self" if given["checkpoints"] else None


def _told(given: Mapping[str, Any]) -> str | None:
    found: str | None = given.get("resume_by")
    return found
