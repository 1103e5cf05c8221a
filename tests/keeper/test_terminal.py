"""A pseudo-terminal for the command: output copied to the log, input from the fifo, size from a file."""

import json
import os
import signal
import sys
from pathlib import Path

from runward.core import job
from runward.keeper import layout
from waiting import TOKEN, wait_until


def type_in(folder, text):
    with open(os.path.join(folder, layout.TTY_INPUT), "wb", buffering=0) as fifo:
        fifo.write(text)


def test_the_command_has_a_terminal_and_its_output_is_in_the_log(place):
    code = "import os, sys; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty()); os.open('/dev/tty', 2)"
    folder = place.python(TOKEN, code, tty=1)
    assert place.final(folder).exit == job.ExitStatus(0)
    assert place.output(folder) == b"True True True\r\n"


def test_everything_that_was_printed_before_the_end_is_in_the_log(place):
    folder = place.submit(TOKEN, "seq", "1", "20000", tty=1)
    place.final(folder)
    assert place.output(folder).split() == [b"%d" % number for number in range(1, 20001)]


def test_what_is_typed_reaches_the_command(place):
    folder = place.submit(TOKEN, "sh", "-c", "echo ready; read line; echo got $line", tty=1)
    place.wait_for_output(folder, b"ready")
    type_in(folder, b"hello\n")
    place.final(folder)
    assert b"got hello" in place.output(folder)


def test_control_c_of_the_terminal_interrupts_the_command(place):
    folder = place.submit(
        TOKEN, sys.executable, "-c", "print('up', flush=True); import time; time.sleep(1000)", tty=1
    )
    place.wait_for_output(folder, b"up")
    type_in(folder, b"\x03")
    assert place.final(folder).exit == job.ExitStatus(None, signal.SIGINT)


def test_the_size_of_the_terminal_is_taken_over(place):
    folder = Path(place.folder(TOKEN))
    folder.mkdir()
    (folder / layout.TTY_SIZE).write_text(json.dumps({"rows": 33, "columns": 111}))
    place.submit(TOKEN, "stty", "size", tty=1)
    place.final(str(folder))
    assert place.output(str(folder)) == b"33 111\r\n"


def test_a_command_on_a_terminal_is_ended_like_any_other(place):
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(1000)"
    folder = place.python(TOKEN, code, tty=1)
    place.wait_for_output(folder, b"up")
    place.stop(folder, grace_s=0.1)
    assert place.final(folder).exit == job.ExitStatus(None, signal.SIGKILL)
    wait_until(lambda: not place.carriers(TOKEN), "nothing is left")
