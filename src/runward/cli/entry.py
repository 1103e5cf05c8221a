"""The list of verbs, and the border where errors become exit codes and a line for a person."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from runward import __version__
from runward.core import errors

# verb: (module:function, help line). Help lines stand here so that `--help` imports no verb.
VERBS: dict[str, tuple[str, str]] = {
    "run": ("runward.cli.run:run", "launch a command and keep it running"),
    "submit": ("runward.cli.submit:submit", "the same through a scheduler"),
    "attach": ("runward.cli.attach:attach", "watch something already running"),
    "watch": ("runward.cli.watch:watch", "take up every run that has no live watcher"),
    "ps": ("runward.cli.ps:ps", "list runs"),
    "status": ("runward.cli.status:status", "one run: attempts, causes, decisions, checkpoints"),
    "events": ("runward.cli.events:events", "what happened, as it was journalled"),
    "logs": ("runward.cli.logs:logs", "the output of an attempt"),
    "stop": ("runward.cli.control:stop", "end a run with grace"),
    "restart": ("runward.cli.control:restart", "go on with a run that is held or ended"),
    "pause": ("runward.cli.control:pause", "go on watching, decide nothing"),
    "unpause": ("runward.cli.control:unpause", "decide again"),
    "diagnose": ("runward.cli.diagnose:diagnose", "why did it stop: cause, evidence, advice"),
    "checkpoints": ("runward.cli.checkpoints:checkpoints", "list, verify and restore checkpoints"),
    "top": ("runward.cli.top:top", "dashboard in the terminal"),
    "serve": ("runward.cli.serve:serve", "pages, JSON and metrics over HTTP"),
    "record": ("runward.cli.record:record", "snapshots of this box for a later look"),
    "gpus": ("runward.cli.gpus:gpus", "the GPUs: use, health, zombies"),
    "health": ("runward.cli.health:health", "one report about a target"),
    "nodes": ("runward.cli.nodes:nodes", "memory of bad nodes and GPUs"),
    "fleet": ("runward.cli.fleet:fleet", "all boxes in one table"),
    "remote": ("runward.cli.remote:remote", "put Runward on a far box, use the one there"),
    "patrol": ("runward.cli.patrol:patrol", "one bounded look at far boxes"),
    "wait": ("runward.cli.wait:wait", "block until a condition holds"),
    "waiters": ("runward.cli.waiters:waiters", "list and clear waits"),
    "chain": ("runward.cli.chain:chain", "stages one after another, detached"),
    "handbook": ("runward.cli.handbook:handbook", "what a new person needs to take over"),
    "verify-transfer": ("runward.cli.verify_transfer:verify_transfer", "is a copy complete?"),
    "doctor": ("runward.cli.doctor:doctor", "can this box and this run work at all?"),
    "setup": ("runward.cli.setup:setup", "prepare a host"),
    "service": ("runward.cli.service:service", "install, remove and look at system services"),
    "rules": ("runward.cli.rules:rules", "list, test and explain diagnosis rules"),
    "config": ("runward.cli.config:config", "validate and print configuration"),
    "bench": ("runward.cli.bench:bench", "measure diagnosis and scanning"),
    "export": ("runward.cli.export:export", "files to copy elsewhere"),
    "agent-guide": ("runward.cli.agent_guide:agent_guide", "a guide for coding agents"),
    "mcp": ("runward.cli.mcp:mcp", "a tool server for coding agents"),
}


class _LazyGroup(click.Group):
    """Knows every verb's name and help line; imports the verb's module when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        module, _, function = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise errors.UsageError(
                errors.Problem(
                    f"no verb {args[0]!r}",
                    nearest=errors.nearest(args[0], VERBS),
                    next_step="See runward --help.",
                )
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="runward")
def cli() -> None:
    """Keeps GPU training runs running: watches, says why a run stopped, restarts it where that can help."""


def run(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code. Only programming errors leave as exceptions."""
    try:
        result: Any = cli.main(list(argv), prog_name="runward", standalone_mode=False)
        sys.stdout.flush()
    except errors.RunwardError as error:
        for problem in error.problems:
            print(f"runward: {problem}", file=sys.stderr)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.UsageError as error:
        verb = error.ctx.command_path if error.ctx is not None else "runward"
        print(f"runward: {_sentence(error.format_message())} See {verb} --help.", file=sys.stderr)
        return 2
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.Abort:
        print("runward: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _silence(1)
        return 141
    except OSError as error:
        return _not_written(error)
    return result if isinstance(result, int) else 0


def _not_written(error: OSError) -> int:
    """A full disk or a vanished terminal behind stdout is said in words; any other error is one of ours."""
    if error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG) or error.filename is not None:
        raise error
    _silence(1)
    print(f"runward: the output cannot be written: {error.strerror}.", file=sys.stderr)
    return errors.InternalError.exit_code


def _silence(descriptor: int) -> None:
    """What is still buffered goes nowhere: another try at the exit would fail, and change the exit code."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


_INVALID = "Invalid value for "


def _sentence(text: str) -> str:
    """What click says about an option in the form of our own: `--grace: what is wrong.`"""
    if text.startswith(_INVALID):
        text = text.removeprefix(_INVALID).replace("'", "", 2)
    return text if text.endswith((".", "?", "!")) else text + "."
