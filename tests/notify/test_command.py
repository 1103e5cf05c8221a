import json
import os
import sys
import time

import pytest

from runward import ports
from runward.notify import command

NOTICE = ports.Notice("held", "demo", "demo held", "two\nlines", {"schema_version": 1})


def python(code, **more):
    return command.CommandNotifier((sys.executable, "-c", code), **more)


def test_the_notice_comes_as_json_on_standard_input(tmp_path):
    out = tmp_path / "got.json"
    code = f"import os, sys; open({str(out)!r}, 'w').write(sys.stdin.read() + os.environ['RUNWARD_EVENT'])"
    python(code).send(NOTICE)
    body, _, event = out.read_text().rpartition("}")
    assert json.loads(body + "}") == {
        "schema_version": 1,
        "event": "held",
        "run": "demo",
        "title": "demo held",
        "text": "two\nlines",
    }
    assert event == "held"


def test_a_failing_command_says_why_and_is_tried_again():
    with pytest.raises(ports.DeliveryFailed, match="ended with 3: no route") as caught:
        python("import sys; sys.exit(print('no route', file=sys.stderr) or 3)").send(NOTICE)
    assert not caught.value.permanent


def test_a_command_that_does_not_exist_is_not_tried_again():
    with pytest.raises(ports.DeliveryFailed) as caught:
        command.parse("/no/such/command --token abc").send(NOTICE)
    assert caught.value.permanent
    assert "abc" not in str(caught.value)


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path):
    note = tmp_path / "pid"
    code = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"open({str(note)!r} + '.new', 'w').write(str(p.pid));"
        f"import os; os.rename({str(note)!r} + '.new', {str(note)!r}); time.sleep(600)"
    )
    with pytest.raises(ports.DeliveryFailed, match="took more than"):
        python(code, deadline_s=5.0).send(NOTICE)
    pid = int(note.read_text())
    end = time.monotonic() + 30
    while _alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _alive(pid)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_command_that_reads_nothing_and_writes_much_is_no_trouble():
    big = ports.Notice("held", "demo", "t", "x" * 500_000, {})
    python("import sys; sys.stdout.write('y' * 3_000_000)").send(big)


@pytest.mark.parametrize("text", ["", "   ", "mail 'me"])
def test_no_command_is_refused_in_words(text):
    with pytest.raises(ValueError, match="command"):
        command.parse(text)


def test_a_command_line_is_split_and_never_given_to_a_shell():
    assert command.parse("mail -s 'a run' me; rm x").argv == ("mail", "-s", "a run", "me;", "rm", "x")
    assert (
        os.path.basename(command.parse("/usr/bin/mail me").argv[0]) == command.parse("/usr/bin/mail me").name
    )
