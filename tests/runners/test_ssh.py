"""The ssh runner against real sshds."""

import contextlib
import socket
import time

import pytest

from fakes.runner import FakeRunner
from runward import ports
from runward.core import errors
from runward.runners import local, ssh
from waiting import wait_until

pytestmark = pytest.mark.sshd

HOSTILE = ["a b", "it's", '"q"', "$(touch /root/pwned)", "`touch /root/pwned`", "a;touch /root/pwned",
           "a\nb", "*", "-rf", "", "\\", "!!", "|cat", "> /root/pwned", "ü\U0001f600"]  # fmt: skip


@pytest.fixture(scope="module", params=["/bin/bash", "/bin/dash"])
def box(request, net):
    return net.add(shell=request.param)


def call(*argv, **more):
    return ports.Call(argv, **{"deadline_s": 60.0, **more})


def test_words_arrive_as_they_were_sent_and_run_nothing(net, box):
    done = net.runner(box.alias).run(call("printf", "%s\\0", *HOSTILE))
    assert done.code == 0
    assert done.stdout.decode().split("\0")[:-1] == HOSTILE
    assert not (box.home / "pwned").exists()


def test_files_of_any_name_can_be_read(net, box):
    folder = net.folder / f"r{box.number}"
    folder.mkdir(mode=0o700)
    runner = net.runner(box.alias, control_dir=str(folder))
    for name in (n.replace("/", "_") for n in HOSTILE if n):
        (box.home / name).write_bytes(b"0123456789")
        assert runner.read(f"/root/{name}", 2, 5) == b"23456"
        assert runner.read(f"~/{name}", 8, 50) == b"89"
    assert not (box.home / "pwned").exists()


def test_missing_files_and_directories_are_said_as_such(net, box):
    runner = net.runner(box.alias)
    with pytest.raises(FileNotFoundError):
        runner.read("/root/none", 0, 5)
    with pytest.raises(IsADirectoryError):
        runner.read("/root", 0, 5)


@pytest.mark.parametrize("code", [0, 127, 255])
def test_the_exit_code_is_the_commands_even_255(net, box, code):
    assert net.runner(box.alias).run(call("sh", "-c", f"exit {code}")).code == code


def test_stdin_directory_and_environment_are_handed_on(net, box):
    done = net.runner(box.alias).run(
        call("/bin/sh", "-c", "pwd; cat; echo $K", stdin=b"in $HOME\n", cwd="/usr", env={"K": "v $(id)"})
    )
    assert done.text == "/usr\nin $HOME\nv $(id)\n"


def test_output_is_bounded(net, box):
    done = net.runner(box.alias).run(call("sh", "-c", "head -c 3000000 /dev/zero", limit=10_000))
    assert len(done.stdout) <= 10_000
    assert done.truncated
    assert done.code == 0


def test_a_banner_and_a_noisy_start_file_do_not_reach_the_output(net):
    banner = net.folder / "banner"
    banner.write_text("WELCOME to the box\n$(touch /root/pwned)\n")
    noisy = net.add(settings=f"Banner {banner}")
    (noisy.home / ".bashrc").write_text("echo noise; echo more noise >&2\n")
    done = net.runner(noisy.alias).run(call("echo", "clean"))
    assert (done.stdout, done.stderr) == (b"clean\n", b"")


def test_a_login_that_runs_nothing_is_contact_lost(net):
    nothing = net.add(shell="/usr/sbin/nologin")
    with pytest.raises(ports.ContactLost, match="did not run the command"):
        net.runner(nothing.alias).run(call("true"))


def test_a_changed_host_key_is_refused_in_words(net, box):
    known = net.known.read_text()
    try:
        swapped = [
            f"{line.split()[0]} {net.key.with_suffix('.pub').read_text()}"
            if line.startswith(box.address)
            else line
            for line in known.splitlines()
        ]
        net.known.write_text("\n".join(swapped) + "\n")
        with pytest.raises(ssh.HostKeyRefused, match="host key is not the one"):
            net.runner(box.alias).run(call("true"))
        net.known.write_text("")
        with pytest.raises(ports.ContactLost, match="not known here"):
            net.runner(box.alias).run(call("true"))
    finally:
        net.known.write_text(known)


def test_a_jump_host_of_the_users_configuration_is_used(net):
    first = net.add()
    behind = net.add(jump=first.alias)
    done = net.runner(behind.alias).run(call("cat", "/proc/sys/kernel/random/boot_id"))
    assert done.stdout == (behind.folder / "boot_id").read_bytes()


def test_a_cut_link_is_contact_lost_and_the_box_is_left_alone_for_a_while(net):
    cut = net.add()
    now = [0.0]
    runner = ssh.Ssh(cut.alias, local.Local(), net.link(connect_timeout_s=1), lambda: now[0])
    cut.cut()
    with pytest.raises(ports.ContactLost):
        runner.run(call("true"))
    with pytest.raises(ports.ContactLost, match="not tried again for 2 s"):
        runner.run(call("true"))
    now[0] = 2.1
    with pytest.raises(ports.ContactLost) as second:
        runner.run(call("true"))
    assert "not tried again" not in str(second.value)
    cut.mend()
    with pytest.raises(ports.ContactLost, match="not tried again for 4 s"):
        runner.run(call("true"))
    wait_until(lambda: answers(runner, now), "the mended link answers")


def answers(runner, now):
    now[0] += 1000
    try:
        return runner.run(call("true")).ok
    except ports.ContactLost:
        return False


def test_a_box_that_swallows_packets_is_contact_lost_at_the_connect_timeout(net):
    hole = net.add()
    hole.swallow()
    with pytest.raises(ports.ContactLost, match="no answer"):
        net.runner(hole.alias, connect_timeout_s=1).run(call("true"))


def test_a_slow_link_is_waited_for_and_one_slower_than_the_connect_timeout_is_contact_lost(net):
    """Each piece is held up on its way by a forwarder: these kernels have no netem."""
    box = net.add()
    with delayed(box.address, 0.05) as port:
        assert slow(net, box, port, 30).run(call("cat", stdin=b"x" * 200_000)).stdout == b"x" * 200_000
    with (
        delayed(box.address, 20.0) as port,
        pytest.raises(ports.ContactLost, match="no answer before the login"),
    ):
        slow(net, box, port, 1).run(call("true"))


def slow(net, box, port, connect_timeout_s):
    way = ("-o", "HostName=127.0.0.1", "-o", f"Port={port}", "-o", f"HostKeyAlias={box.address}")
    link = ssh.Link(options=(*way, "-F", str(net.config)), connect_timeout_s=connect_timeout_s)
    return ssh.Ssh(box.alias, local.Local(), link)


@contextlib.contextmanager
def delayed(address, seconds):
    """A port that leads to the address's sshd, each piece so many seconds late in either direction."""
    import threading

    over = threading.Event()

    def pass_on(source, sink):
        with contextlib.suppress(OSError):
            while (data := source.recv(1 << 16)) and not over.wait(seconds):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def serve():
        with contextlib.suppress(OSError):
            near, _ = door.accept()
            far = socket.create_connection((address, 22), 30)
            ends.extend((near, far))
            far.settimeout(None)
            threads = [
                threading.Thread(target=pass_on, args=pair, daemon=True)
                for pair in ((near, far), (far, near))
            ]
            for thread in threads:
                thread.start()

    ends = [door := socket.create_server(("127.0.0.1", 0))]
    threading.Thread(target=serve, daemon=True).start()
    try:
        yield door.getsockname()[1]
    finally:
        over.set()
        for end in ends:
            end.close()


def test_a_box_whose_sshd_is_gone_is_contact_lost_and_not_called_dead(net, box):
    link = ssh.Link(options=("-o", "Port=1", "-F", str(net.config)))
    with pytest.raises(ports.ContactLost, match="nothing listens there; the box may be up"):
        ssh.Ssh(box.alias, local.Local(), link).run(call("true"))


def test_a_box_that_dies_under_a_command_is_contact_lost(net):
    dying = net.add()
    import threading

    threading.Timer(1.0, dying.stop).start()
    with pytest.raises(ports.ContactLost):
        net.runner(dying.alias).run(call("sleep", "50"))


def test_a_command_beyond_its_deadline_is_contact_lost(net, box):
    begun = time.monotonic()
    with pytest.raises(ports.ContactLost, match="no answer within 2 s"):
        net.runner(box.alias).run(call("sleep", "300", deadline_s=2.0))
    assert time.monotonic() - begun < 60


def test_a_full_sshd_is_told_from_a_dead_box(net):
    full = net.add(settings="MaxStartups 1:100:1")
    with served(full.address), pytest.raises(ports.ContactLost, match="closed before"):
        net.runner(full.alias).run(call("true"))


@contextlib.contextmanager
def served(address):
    """A connection that sshd has begun to serve: only then it counts among those that did not log in yet.

    An earlier one that is not yet counted out can take the only place: tried until sshd greets.
    """
    held = []

    def greeted():
        held.append(socket.create_connection((address, 22), 30))
        try:
            return held[-1].recv(4) == b"SSH-"
        except ConnectionResetError:
            return False

    try:
        wait_until(greeted, "sshd greets a connection")
        yield
    finally:
        for one in held:
            one.close()


def test_calls_can_share_one_connection(net, box):
    folder = net.folder / f"c{box.number}"
    folder.mkdir(mode=0o700)
    runner = net.runner(box.alias, control_dir=str(folder))
    assert runner.run(call("true")).ok
    assert len(list(folder.iterdir())) == 1
    assert runner.run(call("printf", "x")).stdout == b"x"


@pytest.mark.parametrize(
    "host", ["", "-oProxyCommand=id", "a b", "$(id)", "a\nb", "a;b", "a'b", "`id`", "u@-x"]
)
def test_a_host_that_is_none_is_refused_before_anything_runs(host):
    fake = FakeRunner()
    with pytest.raises(errors.UsageError):
        ssh.Ssh(host, fake)
    assert fake.calls == []
