"""`runward chain`: detached from terminal and connection, with a notice after each stage."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence

from runward import ports
from runward.app import chain
from runward.core import redact
from runward.ui import handbook
from runward.wiring import handbooks, notifying


def run(plan: chain.Plan, targets: Sequence[str], words: Sequence[str]) -> int:
    """Run the chain in this process; its exit code. `words` are those of its command line."""
    notifiers = notifying.notifiers(targets)

    aloud = not _is_log(plan.log)

    def tell(event: str, title: str, text: str) -> None:
        body = redact.text(text)
        if aloud:
            print(f"runward: {title}: {body}", file=sys.stderr, flush=True)
        notice = ports.Notice(event, "chain", title, body, {"event": event, "title": title, "text": body})
        for target, notifier in notifiers.items():
            try:
                notifier.send(notice)
            except ports.DeliveryFailed as failed:
                print(
                    f"runward chain: {target} was not told: {redact.text(str(failed))}",
                    file=sys.stderr,
                    flush=True,
                )

    again = f"cd {shlex.quote(os.getcwd())} && runward chain {shlex.join(words)}"

    def show(plan: chain.Plan, state: dict[str, str]) -> None:
        rows = [handbook.Stage(stage.name, stage.argv, state[stage.name]) for stage in plan.stages]
        handbooks.keep_chain(plan.log, handbook.chain_page(rows, plan.log, plan.marker, again))

    return chain.run(plan, tell, show)


def _is_log(path: str) -> bool:
    """Whether our stderr is that log, which has its own lines already."""
    try:
        return os.path.samestat(os.fstat(2), os.stat(path))
    except OSError:
        return False


def check(plan: chain.Plan, targets: Sequence[str]) -> None:
    """Every mistake before anything is detached. Raises UsageError."""
    chain.check(plan.stages)
    notifying.notifiers(targets)


def detach(argv: Sequence[str], log: str) -> int:
    """Run the same command line in a session of its own, stdin from /dev/null, both streams to the log."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "runward", "chain", "--foreground", *argv],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    return process.pid
