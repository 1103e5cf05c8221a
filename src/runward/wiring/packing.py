"""Packs this Runward with what it needs of pure Python into one zip that another machine can unpack and run."""

import hashlib
import io
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from runward.config import rulesets

_LIMIT = 48 << 20
_WORKS_WITHOUT_COMPILED = frozenset({"pyyaml"})
"""Of what has compiled parts, these are whole without them; the others are left out and something steps down."""
_COMPILED = (".so", ".pyd", ".dylib", ".a")
_WHEN_NO_METADATA = ("click", "hydra-core", "nvidia-ml-py", "platformdirs", "pyperscan", "pyyaml")
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Pack:
    """A zip whose root is what belongs on Python's path; the same installation gives the same bytes."""

    data: bytes
    name: str
    """Version and a piece of the digest: names what was installed, exactly."""
    digest: str
    """SHA-256, hexadecimal."""
    left_out: tuple[str, ...]
    """Distributions with compiled parts, which another machine may not be able to load."""


def make(version: str) -> Pack:
    """Pack the Runward that runs now. Raises ValueError when it would be larger than 48 MiB."""
    files: dict[str, str | bytes] = dict(_own())
    files[f"runward/rulesets/{rulesets.INDEX}"] = rulesets.encoded(rulesets.load(user=False))
    left_out = []
    for distribution in _needed():
        name = _plain(distribution.metadata["Name"])
        paths = distribution.files or ()
        if any(path.suffix in _COMPILED for path in paths) and name not in _WORKS_WITHOUT_COMPILED:
            left_out.append(distribution.metadata["Name"])
            continue
        files.update(_pure(paths))
    data = _zip(files)
    if len(data) > _LIMIT:
        raise ValueError(f"the pack would be {len(data) >> 20} MiB")
    digest = hashlib.sha256(data).hexdigest()
    return Pack(data, f"{version}-{digest[:8]}", digest, tuple(sorted(left_out)))


def _own() -> Iterator[tuple[str, str]]:
    """Name in the zip -> path, of our own package."""
    import runward

    top = os.path.dirname(os.path.abspath(runward.__file__))
    for root, folders, names in os.walk(top):
        folders[:] = [folder for folder in folders if folder != "__pycache__"]
        for name in names:
            path = os.path.join(root, name)
            yield os.path.join("runward", os.path.relpath(path, top)), path


def _needed() -> list[metadata.Distribution]:
    """What our core needs and is installed here, with what that needs; extras are not followed."""
    try:
        wanted = _names(metadata.requires("runward") or ())
    except metadata.PackageNotFoundError:
        wanted = list(_WHEN_NO_METADATA)
    found: dict[str, metadata.Distribution] = {}
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of another platform or Python
        wanted += _names(found[name].requires or ())
    return [found[name] for name in sorted(found)]


def _names(requirements: Sequence[str]) -> list[str]:
    """Distribution names of requirements that no extra stands before.

    >>> _names(["PyYAML>=6", "hydra_core<2,>=1 ; python_version > '3'", "x; extra == 'dev'"])
    ['pyyaml', 'hydra-core']
    """
    kept = [text for text in requirements if not re.search(r";.*\bextra\b", text)]
    return [_plain(match[0]) for text in kept if (match := re.match(r"[A-Za-z0-9._-]+", text))]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pure(paths: Sequence[metadata.PackagePath]) -> Iterator[tuple[str, str]]:
    """What can be carried: no compiled code, nothing outside the library folder, no record of an installer."""
    for path in paths:
        at_installation = path.name in {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
        skipped = path.suffix in {*_COMPILED, ".pyc", ".pth"} or ".." in path.parts or path.is_absolute()
        real = str(path.locate())
        if not at_installation and not skipped and os.path.isfile(real):
            yield str(path), real


def _zip(files: Mapping[str, str | bytes]) -> bytes:
    """Names in the zip, and the path or the content of each."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, _content(files[name]))
    return out.getvalue()


def _content(what: str | bytes) -> bytes:
    if isinstance(what, bytes):
        return what
    with open(what, "rb") as file:
        return file.read()
