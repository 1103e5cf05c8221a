"""Packed logs as text, in blocks: gzip, zlib, bzip2, xz, and Zstandard where something here can read it."""

import os
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Protocol

from runward.core import errors, log_data

BLOCK = 256 << 10
LIMIT = 64 << 30
"""Bytes unpacked of one file: a few megabytes of zeros packed with malice would go on for ever."""
_WINDOW = 192 << 20
"""Memory that a packed file may ask for."""
_SILENCE_S = 60.0
_HEADS = {
    b"\x1f\x8b": "gzip",
    b"\x78\x01": "zlib",
    b"\x78\x9c": "zlib",
    b"\x78\xda": "zlib",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}


def kind_of(head: bytes) -> str | None:
    """How a file is packed, by its first bytes; None: it is not."""
    return next((kind for start, kind in _HEADS.items() if head.startswith(start)), None)


class _Decoder(Protocol):
    """One stream: what `bz2` and `lzma` offer, and the wrapper of `zlib` below."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Zlib:
    def __init__(self, bits: int) -> None:
        self._inner = zlib.decompressobj(bits)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail
        return out


_DECODERS: dict[str, Callable[[], _Decoder]] = {
    "gzip": lambda: _Zlib(31),
    "zlib": lambda: _Zlib(15),
    "bzip2": lambda: import_module("bz2").BZ2Decompressor(),
    "xz": lambda: import_module("lzma").LZMADecompressor(memlimit=_WINDOW),
}
"""A module is loaded with its first file: most logs are not packed."""


def _faults() -> tuple[type[Exception], ...]:
    """What damaged data raise."""
    import lzma  # noqa: PLC0415 -- as above

    return (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError)


def unpacked(fd: int, kind: str, notes: list[str]) -> Iterator[log_data.Chunk]:
    """The text of a packed file. Damage ends it, and is said in `notes`. Raises UsageError for no reader."""
    texts = _zstd(fd) if kind == "zstd" else _streams(_blocks(fd), _DECODERS[kind])
    offset = 0
    try:
        for text in texts:
            yield log_data.Chunk(offset, text)
            offset += len(text)
            if offset > LIMIT:
                notes.append(f"only the first {offset} unpacked bytes were read")
                return
    except _faults() as fault:
        notes.append(f"the {kind} data are damaged or cut off after {offset} unpacked bytes: {fault}")


def _blocks(fd: int) -> Iterator[bytes]:
    at = 0
    while data := os.pread(fd, BLOCK, at):
        yield data
        at += len(data)


def _streams(parts: Iterator[bytes], new: Callable[[], _Decoder]) -> Iterator[bytes]:
    """One packed stream after another, as `cat a.gz b.gz` leaves them."""
    decoder, begun = new(), False
    for part in parts:
        data = part
        while data or not decoder.needs_input:
            text = decoder.decompress(data, BLOCK)
            data, begun = b"", True
            if text:
                yield text
            if decoder.eof:
                data = decoder.unused_data.lstrip(b"\0")
                decoder, begun = new(), False
    if begun:
        raise EOFError("it ends in the middle")


def _zstd(fd: int) -> Iterator[bytes]:
    try:
        import zstandard  # noqa: PLC0415 -- optional
    except ImportError:
        import shutil  # noqa: PLC0415 -- as above

        program = shutil.which("zstd")
        if program is None:
            raise errors.UsageError(
                errors.Problem(
                    "packed with Zstandard, which cannot be read here",
                    next_step="Install the command zstd or the package zstandard, or unpack it first.",
                )
            ) from None
        yield from _through([program, "-dcq"], fd)
        return
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    with (
        open(fd, "rb", closefd=False) as file,
        decompressor.stream_reader(file, read_across_frames=True) as reader,
    ):
        while text := reader.read(BLOCK):
            yield text


def _through(argv: list[str], fd: int) -> Iterator[bytes]:
    """Through a program, which is ended when it is silent for a minute or when nobody wants more."""
    import select  # noqa: PLC0415 -- as above
    import subprocess  # noqa: PLC0415 -- as above

    with subprocess.Popen(argv, stdin=fd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None  # noqa: S101 -- for the type checker
            while select.select([process.stdout], [], [], _SILENCE_S)[0]:
                text = os.read(process.stdout.fileno(), BLOCK)
                if text:
                    yield text
                elif process.wait(_SILENCE_S):
                    raise EOFError("it is cut off or damaged")
                else:
                    return
            raise EOFError(f"{argv[0]} was silent for a minute")
        finally:
            process.kill()
