"""Everything that can be wrong with a `run`, found before anything is made: all mistakes at once."""

import os
import re
from collections.abc import Mapping
from typing import Any

from runward.config import policy_files, setting_files
from runward.core import checkpoints, decisions, errors, options, resume, samples
from runward.probes import checkpoints as checkpoint_probe
from runward.store import sqlite
from runward.wiring import commands, notifying, saying

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SETTINGS = {
    "policy": "run.policy",
    "grace": "run.grace",
    "stop_signal": "run.stop_signal",
    "stall_after": "run.stall_after",
    "max_runtime": "run.max_runtime",
    "log_keep": "logs.keep",
    "quarantine": "checkpoints.quarantine",
    "hash_checkpoints": "checkpoints.hash",
    "verify_rate": "checkpoints.verify_rate",
    "verify_budget": "checkpoints.verify_budget",
    "notify": "notify.to",
}
"""Options that are settings too: the command line beats environment and files."""
_WORDS = {setting: "--" + key.replace("_", "-") for key, setting in _SETTINGS.items()}


def prepare(
    command: tuple[str, ...], given: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[options.RunOptions, dict[str, str]]:
    """The run's options and its environment. Raises UsageError with all mistakes of the command line."""
    cwd = os.path.abspath(given["cwd"] or os.getcwd())
    settings = setting_files.load(setting_files.Sources(cwd, environ, chosen(given), words=_WORDS))
    env = _environment(environ, given["environment"])
    commands.check(command, cwd, env)
    asked = options.RunOptions(
        name=given["name"] if given["name"] is not None else name_of(command),
        argv=command,
        cwd=cwd,
        checkpoints=absolute(cwd, given["checkpoints"]),
        resume_arg=given["resume_arg"],
        resume_by=given["resume_by"],
        resume=given["resume"],
        progress_regex=given["progress_regex"],
        heartbeat=absolute(cwd, given["heartbeat"]),
        log_dir=absolute(cwd, given["log_dir"]),
        split=given["split"],
        tty=given["tty"],
        end_on_nonfinite=given["end_on_nan"],
        gpu_idle_after_s=given["gpu_idle_after"],
        gpu_idle_below_pct=given["gpu_idle_below"],
        gpu_idle=given["gpu_idle"],
        settings=settings,
    )
    problems = [
        *run_problems(asked),
        *_log_dir_problems(asked.log_dir),
        *_checkpoints_problems(asked.checkpoints),
        *notifying.absent(settings.notify.to, env),
    ]
    if problems:
        raise errors.UsageError(*problems)
    return asked, env


def as_settings(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, object]:
    """Those of the options that are settings and were given, as the configuration reads them."""
    return {key: _plain(value) for key, value in given.items() if key in names and _given_at_all(value)}


def chosen(given: Mapping[str, Any]) -> dict[str, object]:
    """Settings that the command line gives, by their names in the configuration."""
    return {_SETTINGS[key]: value for key, value in as_settings(given, _SETTINGS).items()}


def run_problems(asked: options.RunOptions) -> list[errors.Problem]:
    """What is wrong with a run whatever executes it."""
    return [*_cwd_problems(asked.cwd), *word_problems(asked), *_resume_problems(asked)]


def word_problems(asked: options.RunOptions) -> list[errors.Problem]:
    """What is wrong with the words of a run, however it was begun: its name, policy, notices and pattern."""
    found: list[errors.Problem] = []
    if not _NAME.fullmatch(asked.name):
        what = f"{asked.name!r} is no name: letters, digits, . _ - and at most 64"
        found.append(errors.Problem(what, "--name"))
    for check in (
        lambda: policy_files.choose_any(asked.settings.run.policy),
        lambda: notifying.notifiers(asked.settings.notify.to),
    ):
        try:
            check()
        except errors.UsageError as error:
            found.extend(error.problems)
    if asked.progress_regex is not None:
        found.extend(_regex_problems(asked.progress_regex))
    return found


def _given_at_all(value: object) -> bool:
    return value is not None and value is not False and value != ()


def _plain(value: object) -> object:
    """A setting as the configuration reads it: seconds and bytes as text, tuples as lists."""
    if isinstance(value, tuple):
        return list(value)
    return f"{value:g}s" if isinstance(value, float) else value


def _environment(environ: Mapping[str, str], given: tuple[str, ...]) -> dict[str, str]:
    """The child's environment: ours, unbuffered Python with fault handler, and the user's own pairs."""
    return {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", **environ, **pairs(given)}


def pairs(given: tuple[str, ...]) -> dict[str, str]:
    """What `--env K=V` sets. Raises UsageError."""
    found = {}
    for pair in given:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise errors.UsageError(errors.Problem(f"{pair!r} is not K=V", "--env"))
        found[key] = value
    return found


def _cwd_problems(cwd: str) -> list[errors.Problem]:
    if not os.path.isdir(cwd):
        return [errors.Problem(f"no such directory: {cwd}", "--cwd")]
    return [] if os.access(cwd, os.X_OK) else [errors.Problem(f"no right to enter {cwd}", "--cwd")]


def _log_dir_problems(path: str | None) -> list[errors.Problem]:
    """Whether the output can go there; what does not exist yet is made at the start."""
    if path is None:
        return []
    there = path
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        return [errors.Problem(f"{there} is no directory: no log can be written below it", "--log-dir")]
    if not os.access(there, os.W_OK | os.X_OK):
        return [errors.Problem(f"no right to write logs in {there}", "--log-dir")]
    return []


def _checkpoints_problems(path: str | None) -> list[errors.Problem]:
    """A directory that is not there yet is made by the training; anything else there never becomes one."""
    if path is None or os.path.isdir(path) or not os.path.lexists(path):
        return []
    step = f"Name the directory that holds the checkpoints: --checkpoints {os.path.dirname(path)}"
    return [errors.Problem(f"{path} is no directory", "--checkpoints", next_step=step)]


def _resume_problems(asked: options.RunOptions) -> list[errors.Problem]:
    found: list[errors.Problem] = []
    try:
        resume.check(asked.argv, resume.How.of(asked.resume_arg, asked.resume_by))
    except errors.UsageError as error:
        found.extend(error.problems)
    if asked.resume_arg is not None and asked.checkpoints is None:
        found.append(errors.Problem("it needs --checkpoints DIR", "--resume-arg"))
    if asked.resume and asked.checkpoints is None:
        found.append(errors.Problem("it needs --checkpoints DIR", "--resume"))
    return found


def _regex_problems(pattern: str) -> list[errors.Problem]:
    try:
        samples.user_pattern(pattern)
    except ValueError as error:
        return [errors.Problem(str(error), "--progress-regex")]
    return []


def name_of(command: tuple[str, ...]) -> str:
    """A name from the script, else from the program."""
    for word in command[1:]:
        if word.endswith((".py", ".sh")):
            return _clean(os.path.splitext(os.path.basename(word))[0])
    return _clean(os.path.basename(command[0]))


def _clean(word: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", word).lstrip("._-")[:64] or "run"


def absolute(cwd: str, path: str | None) -> str | None:
    return os.path.normpath(os.path.join(cwd, path)) if path is not None else None


def say_rebuilt(store: sqlite.SqliteStore) -> None:
    if store.rebuilt is not None:
        saying.say(f"the state database was damaged; moved to {store.rebuilt} and rebuilt")


def look(asked: options.RunOptions) -> checkpoints.Listing | None:
    if asked.checkpoints is None or not os.path.isdir(asked.checkpoints):
        return None
    return checkpoint_probe.look(asked.checkpoints)


def first_checkpoint(
    asked: options.RunOptions, listing: checkpoints.Listing | None
) -> checkpoints.Checkpoint | None:
    newest = checkpoints.choose(listing.checkpoints) if listing is not None else None
    if newest is None or asked.resume:
        return newest
    saying.say(f"{newest.path} is complete; attempt 1 begins without it (--resume to go on from there)")
    return None


def dry_run(
    asked: options.RunOptions, first: checkpoints.Checkpoint | None, listing: checkpoints.Listing | None
) -> int:
    """Say what would be started and what would follow."""
    how = resume.How.of(asked.resume_arg, asked.resume_by)
    planned = resume.plan(asked.argv, how, first, listing or checkpoints.Listing(asked.checkpoints or ""))
    policy = policy_files.choose_any(asked.settings.run.policy)
    print(f"run {asked.name} in {asked.cwd}")
    print("would start: " + " ".join(planned.argv))
    print(f"stop signal {asked.settings.run.stop_signal}, grace {asked.settings.run.grace_s:.0f} s")
    print(f"policy {decisions.describe(policy)}")
    if asked.checkpoints is not None:
        print(
            f"checkpoints {asked.checkpoints}: "
            + (f"newest complete {first.path}" if first else "none chosen")
        )
    return 0
