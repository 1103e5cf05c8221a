import bz2
import codecs
import gzip
import lzma
import os
import shutil
import socket
import subprocess
import sys
import zlib

import pytest

from runward import scan
from runward.core import errors
from runward.scan import packed, reading

TEXT = b"".join(b"line %d of a log that is long enough to be packed\n" % number for number in range(30_000))


def read(path):
    log = reading.LogFile(str(path))
    return list(log.chunks()), log.notes


def put(tmp_path, data, name="a.log"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def joined(chunks):
    at = 0
    for chunk in chunks:
        assert chunk.offset == at
        at += len(chunk.data)
    return b"".join(chunk.data for chunk in chunks)


PACKERS = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "two gzip members": lambda data: gzip.compress(data[:1000]) + gzip.compress(data[1000:]),
    "zlib": lambda data: zlib.compress(data, 1),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.mark.parametrize("kind", PACKERS)
def test_a_file_is_read_whole_however_it_is_packed_and_whatever_its_name(tmp_path, kind):
    chunks, notes = read(put(tmp_path, PACKERS[kind](TEXT)))
    assert joined(chunks) == TEXT
    assert max(len(chunk.data) for chunk in chunks) <= reading.BLOCK
    assert notes == []


def _zstd_packed():
    if shutil.which("zstd") is None:
        if os.environ.get("CI"):
            pytest.fail("the command zstd is missing")
        pytest.skip("the command zstd is missing")
    return subprocess.run(["zstd", "-qc"], input=TEXT, capture_output=True, check=True, timeout=60).stdout


def test_zstandard_is_read_by_the_command_where_the_package_is_missing(tmp_path, monkeypatch):
    data = _zstd_packed()
    monkeypatch.setitem(sys.modules, "zstandard", None)
    chunks, notes = read(put(tmp_path, data))
    assert joined(chunks) == TEXT
    chunks, notes = read(put(tmp_path, data[: len(data) // 2], "cut.log"))
    assert TEXT.startswith(joined(chunks))
    assert "damaged or cut off" in notes[0]


def test_zstandard_without_a_reader_is_refused_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(errors.UsageError, match="Install the command zstd"):
        read(put(tmp_path, b"\x28\xb5\x2f\xfd" + b"x" * 100))


@pytest.mark.parametrize("kind", ["gzip", "zlib", "bzip2", "xz"])
@pytest.mark.parametrize("harm", ["cut", "damaged"])
def test_what_a_damaged_packed_file_still_gives_is_read_and_the_damage_is_said(tmp_path, kind, harm):
    data = PACKERS[kind](TEXT)
    middle = len(data) // 2
    chunks, notes = read(
        put(tmp_path, data[:middle] if harm == "cut" else data[:middle] + b"\0" * 50 + data[middle + 50 :])
    )
    assert TEXT[:1000].startswith(joined(chunks)[:1000])
    assert [note for note in notes if f"the {kind} data are damaged" in note]


def test_a_small_file_that_unpacks_without_end_is_left_at_the_bound_and_never_held_at_once(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(packed, "LIMIT", 8 << 20)
    chunks, notes = read(put(tmp_path, gzip.compress(b"\0" * (64 << 20))))
    assert max(len(chunk.data) for chunk in chunks) <= reading.BLOCK
    assert 8 << 20 <= sum(len(chunk.data) for chunk in chunks) <= (8 << 20) + 2 * reading.BLOCK
    assert len(notes) == 1


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", [True, False])
def test_utf_16_is_read_as_text_with_a_mark_or_without(tmp_path, encoding, mark):
    text = "ValueError: größe 12 falsch\n" * 20_000
    start = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}[encoding] if mark else b""
    chunks, notes = read(put(tmp_path, start + text.encode(encoding)))
    assert joined(chunks) == text.encode()
    assert "offsets are those of the text in UTF-8" in notes[0]


def test_a_utf_8_mark_is_left_out_and_offsets_stay_true(tmp_path):
    chunks, _ = read(put(tmp_path, codecs.BOM_UTF8 + b"ValueError: x\n"))
    assert [(chunk.offset, chunk.data) for chunk in chunks] == [(3, b"ValueError: x\n")]


def test_binary_text_with_zeros_is_no_utf_16(tmp_path):
    data = b"\x00\x00\xff\xfe ValueError: x\n" + b"\x00" * 4096
    chunks, notes = read(put(tmp_path, data))
    assert (joined(chunks), notes) == (data, [])


def test_holes_are_passed_over_and_said(tmp_path):
    path = tmp_path / "sparse.log"
    with path.open("wb") as file:
        file.write(b"begin\n")
        file.truncate(20 << 30)
        file.seek((20 << 30) - 4096)
        file.write(b"\nValueError: at the end\n")
    if os.stat(path).st_blocks * 512 > 1 << 20:
        pytest.skip("this file system makes no holes")
    chunks, notes = read(path)
    assert sum(len(chunk.data) for chunk in chunks) < 1 << 20
    assert "bytes of holes passed over" in notes[0]
    scanner = scan.LineScanner(scan.compile([r"^(?P<exc>\w+Error): (?P<msg>.*)"]))
    hits = [hit for chunk in chunks for hit in scanner.feed(chunk.data, chunk.offset)] + scanner.flush()
    assert [hit.offset for hit in hits] == [(20 << 30) - 4095]


def test_a_file_that_shrinks_while_it_is_read_gives_what_there_is(tmp_path):
    text = TEXT * 4
    path = put(tmp_path, text)
    log = reading.LogFile(str(path))
    chunks = log.chunks()
    got = [next(chunks)]
    os.truncate(path, 3 * reading.BLOCK + 1000)
    got += chunks
    assert text.startswith(joined(got))
    assert "shrank to" in log.notes[0]


def test_a_file_that_grows_is_read_to_the_end_that_it_had(tmp_path):
    path = put(tmp_path, b"one\n")
    log = reading.LogFile(str(path))
    with path.open("ab") as file:
        file.write(b"two\n")
    assert joined(list(log.chunks())) == b"one\n"


def test_a_file_of_proc_says_no_size_and_is_read_all_the_same():
    chunks, _ = read("/proc/self/status")
    assert joined(chunks).startswith(b"Name:")


def test_an_empty_file_is_an_empty_log(tmp_path):
    assert read(put(tmp_path, b"")) == ([], [reading.EMPTY])


def test_what_is_no_readable_file_is_refused_in_words_and_never_waited_for(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    loop, door = tmp_path / "loop", socket.socket(socket.AF_UNIX)
    loop.symlink_to(loop)
    door.bind(str(tmp_path / "door"))
    door.close()
    for path, kind, words in (
        (tmp_path, errors.UsageError, "is a directory"),
        (pipe, errors.UsageError, "pipe or a device"),
        ("/dev/zero", errors.UsageError, "pipe or a device"),
        (loop, errors.UsageError, "cannot be read"),
        (tmp_path / "door", errors.UsageError, "cannot be read"),
        (tmp_path / "none", errors.NotFound, "no such file"),
    ):
        with pytest.raises(kind, match=words):
            reading.LogFile(str(path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused_in_words(tmp_path):
    path = put(tmp_path, b"x")
    path.chmod(0)
    with pytest.raises(errors.UsageError, match="no permission"):
        reading.LogFile(str(path))


@pytest.mark.parametrize("size", [0, 1000, 32 << 10, (32 << 10) + 1, 256 << 10, (256 << 10) + 5, len(TEXT)])
def test_only_the_last_bytes_are_not_bulk(tmp_path, size):
    chunks, _ = read(put(tmp_path, TEXT[:size]))
    assert joined(chunks) == TEXT[:size]
    assert sum(len(chunk.data) for chunk in chunks if not chunk.bulk) == min(size, 32 << 10)
    assert [chunk.bulk for chunk in chunks] == sorted((chunk.bulk for chunk in chunks), reverse=True)


def test_line_numbers_are_counted_for_the_offsets_that_are_asked_for(tmp_path):
    path = str(put(tmp_path, TEXT))
    wanted = {TEXT.index(b"line %d " % number): number + 1 for number in (0, 1, 17, 9_000, 29_999)}
    wanted[TEXT.index(b"line 17 ") + 9] = 18
    assert reading.line_numbers(path, list(wanted)) == wanted
    assert reading.line_numbers(path, []) == {}


def test_a_line_of_fifty_megabytes_takes_no_memory_to_speak_of(tmp_path):
    path = tmp_path / "long.log"
    with path.open("wb") as file:
        for number in range(50):
            file.write(b"0123456789abcdef, " * 58_254)
            file.write(b"ValueError: %d;" % number)
    script = (
        "import sys, resource\n"
        "from runward import scan\n"
        "from runward.scan import reading\n"
        "compiled = scan.compile([r'(?P<exc>\\w+Error): (?P<n>\\d+);'])\n"
        "scanner, count = scan.LineScanner(compiled), 0\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for chunk in reading.LogFile(sys.argv[1]).chunks():\n"
        "    count += len(scanner.feed(chunk.data, chunk.offset))\n"
        "count += len(scanner.flush())\n"
        "print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=150, check=True
    )
    count, kilobytes = map(int, done.stdout.split())
    assert count == 50
    assert kilobytes < 20_000


def test_a_sample_is_of_the_middle_and_takes_nothing_from_what_is_read_once(tmp_path):
    path = put(tmp_path, b"a" * 100 + b"b" * 100)
    assert reading.LogFile(str(path)).sample(10) == b"b" * 10
    assert reading.LogFile(str(path), held=False).sample(10) == b""
    there, here = os.pipe()
    os.write(here, TEXT[:100])
    os.close(here)
    piped = reading.Pipe("-", there)
    assert piped.sample(10) == b""
    assert b"".join(chunk.data for chunk in piped.chunks()) == TEXT[:100]
    os.close(there)
