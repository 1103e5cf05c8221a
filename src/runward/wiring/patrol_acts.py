"""The remedies of a patrol that may be repeated: carried out there, or said as a command for a person."""

import shlex

from runward import ports
from runward.app import patrol
from runward.core import errors, far_facts, inventory, patrolling, stages
from runward.wiring import far
from runward.wiring import patrolling as wired

_RESUME = r"""
set -u
lock=$1 log=$3 how=$4
mkdir -- "$lock" 2>/dev/null || {
  now=$(date +%s); at=$(stat -c %Y -- "$lock" 2>/dev/null || echo "$now")
  [ $((now - at)) -lt 3600 ] && { echo "a resume was begun here less than an hour ago"; exit 3; }
  touch -- "$lock"
}
cd -- "$2" || exit 4
shift 4
name=runward-resume-$$
# 9 keeps the terminal open: tmux ends a pane whose terminal nobody holds.
quiet='log=$1; shift; exec "$@" 9>&1 </dev/null >>"$log" 2>&1'
case $how in
  tmux) tmux new-session -d -s "$name" -- sh -c "$quiet" sh "$log" "$@" ;;
  screen) screen -dmS "$name" sh -c "$quiet" sh "$log" "$@" ;;
  systemd-run)
    systemd-run --user --collect --quiet --unit="$name" --working-directory="$PWD" -- sh -c "$quiet" sh "$log" "$@" ;;
  *) if command -v setsid >/dev/null 2>&1; then setsid "$@" </dev/null >>"$log" 2>&1 &
     else nohup "$@" </dev/null >>"$log" 2>&1 & fi
     name=$! ;;
esac || { rmdir -- "$lock"; exit 5; }
echo "started as $name"
"""


def act(
    visit: patrol.Visit, report: patrolling.Report, box: inventory.Box, wishes: wired.Wishes
) -> str | None:
    """Carry out the remedy when it is one that may be repeated; what was done in words, None when nothing is."""
    match report.remedy.act if report.remedy else None:
        case patrolling.Act.RESUME:
            return _resume(visit, box)
        case patrolling.Act.TAKE_UP:
            return _take_up(box)
        case patrolling.Act.TRANSFER:
            return "; ".join(_transfer(box, here, there) for here, there in wishes.sources)
        case patrolling.Act.UNSCHEDULE:
            from runward.wiring import scheduling

            return scheduling.remove(box.name)
        case _:
            return None


def command(report: patrolling.Report, box: inventory.Box, wishes: wired.Wishes) -> str | None:
    """The remedy as a command for a person to run."""
    match report.remedy.act if report.remedy else None:
        case patrolling.Act.RESUME:
            words = report.resume_argv or stages.split("resume", wishes.resume or "")
            inner = f"cd {shlex.quote(box.workdir or '.')} && {shlex.join(words)}"
            return inner if box.host == far.HERE else shlex.join(["ssh", "-t", box.host, inner])
        case patrolling.Act.TAKE_UP:
            there = () if box.host == far.HERE else ("remote", "exec", box.host)
            return shlex.join(["runward", *there, "watch", "--detach"])
        case patrolling.Act.TRANSFER:
            return " && ".join(
                shlex.join(["runward", "verify-transfer", "--resume", here, _end(box, there)])
                for here, there in wishes.sources
            )
        case patrolling.Act.UNSCHEDULE:
            return shlex.join(["runward", "patrol", "--uninstall", box.name])
        case _:
            return None


def _resume(visit: patrol.Visit, box: inventory.Box) -> str:
    """Look once more, then start; a lock directory on the box makes a second start within the hour impossible."""
    again = patrol.ask(visit.runner, visit.expected.questions, far.probe())
    if isinstance(again, str):
        return f"not resumed: {again}"
    if patrolling.alive(again, visit.expected) is not False:
        return "not resumed: something of the run lives"
    argv = _checked_command(visit, again)
    if isinstance(argv, str):
        return f"not resumed: {argv}"
    work = (box.workdir or ".").rstrip("/")
    words = (f"{work}/.runward-resume", work or "/", f"{work}/runward-resume.log", box.detach, *argv)
    try:
        done = visit.runner.run(ports.Call(("/bin/sh", "-c", _RESUME, "sh", *words), deadline_s=30.0))
    except ports.ContactLost as lost:
        return f"not known whether it was resumed: {lost}"
    said = done.text.strip() or done.stderr.decode("utf-8", "replace").strip()
    return f"resumed: {said}" if done.ok else f"not resumed: {said}"


def _checked_command(visit: patrol.Visit, facts: far_facts.Facts) -> tuple[str, ...] | str:
    """The command, told the newest checkpoint whose checksums hold; a string: why it must not be started."""
    wanted = visit.expected
    if not wanted.questions.checkpoints:
        return stages.split("resume", wanted.resume or "")
    folder = wired.checkpoint_folder(facts)
    if folder is None:
        return "its checkpoints could not be seen"
    found = wired.listing_there(visit, facts, folder, "newest")
    return found if isinstance(found, str) else wired.resumed_command(wanted, found) or ()


def _take_up(box: inventory.Box) -> str:
    """`runward watch --detach` there: a lock makes one watcher of many, so it may be repeated."""
    from runward.wiring import far_asking

    try:
        done = far_asking.ask(box.host, ("watch", "--detach"))
    except errors.RunwardError as error:
        return f"not taken up: {error}"
    said = done.stderr.decode("utf-8", "replace").strip() or done.text.strip()
    return said if done.ok else f"not taken up: {said}"


def _end(box: inventory.Box, path: str) -> str:
    """A far directory as `verify-transfer` writes it."""
    return path if box.host == far.HERE else f"ssh:{box.host}/{path.removeprefix('/')}"


def _transfer(box: inventory.Box, here: str, there: str) -> str:
    from runward.wiring import comparing

    why = comparing.copy(here, _end(box, there))
    return f"transferred {here}" if why is None else f"not resumed, {here}: {why}"
