"""The engine's configuration file: merge ours into it, say what changes, refuse what cannot work."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?[kmgtp]?(?:ib|b)?", re.IGNORECASE)
"""As the engine reads sizes; neither 0 nor -1 is one to it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What shall be in the file."""

    max_size: str = "100m"
    max_file: int = 5
    live_restore: bool = True
    nvidia: bool = False
    """Register the NVIDIA runtime: only where it is installed."""
    default_runtime: str | None = None
    storage_driver: str | None = None
    data_root: str | None = None
    userland_proxy: bool | None = None


def parse(text: str) -> dict[str, Any]:
    """The file's object; empty text is an empty one. Raises ValueError with line and column."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} in line {error.lineno}, column {error.colno}") from error
    if not isinstance(value, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 -- the file's content is wrong, not a type of ours
    return value


def merged(current: Mapping[str, Any], wish: Wish) -> dict[str, Any]:
    """The wished keys over the current ones; every other key stays as it is."""
    result = dict(current)
    options = result.get("log-opts") if result.get("log-driver", "json-file") == "json-file" else None
    result["log-driver"] = "json-file"
    kept = (
        {key: value for key, value in options.items() if key != "compress"}
        if isinstance(options, dict)
        else {}
    )
    packed = {"compress": "true"} if wish.max_file > 1 else {}  # the engine refuses to pack the only file
    result["log-opts"] = {**kept, "max-size": wish.max_size, "max-file": str(wish.max_file), **packed}
    result["live-restore"] = wish.live_restore
    if wish.nvidia:
        known = result.get("runtimes")
        runtimes = dict(known) if isinstance(known, dict) else {}
        runtimes.setdefault("nvidia", {"path": "nvidia-container-runtime", "runtimeArgs": []})
        result["runtimes"] = runtimes
    asked = {
        "default-runtime": wish.default_runtime,
        "storage-driver": wish.storage_driver,
        "data-root": wish.data_root,
        "userland-proxy": wish.userland_proxy,
    }
    result |= {key: value for key, value in asked.items() if value is not None}
    return result


def problems(config: Mapping[str, Any]) -> Sequence[str]:
    """What the engine would refuse at its start; empty when nothing is known to be wrong."""
    found = []
    options = config.get("log-opts", {})
    if not isinstance(options, dict):
        found.append("log-opts is no object")
        options = {}
    found += [
        f"log-opts.{key} must be a text, not {value!r}"
        for key, value in options.items()
        if not isinstance(value, str)
    ]
    size = str(options.get("max-size", "1m"))
    match = _SIZE.fullmatch(size)
    if match is None or not float(match[1]):
        found.append(f"log-opts.max-size {size!r} is no size: write 100m")
    if not str(options.get("max-file", "1")).isdigit() or int(options.get("max-file", "1")) < 1:
        found.append(f"log-opts.max-file {options.get('max-file')!r} is no count")
    runtime = config.get("default-runtime")
    if runtime not in {None, "runc", *config.get("runtimes", {})}:
        found.append(f"default-runtime {runtime!r} is not among the runtimes")
    return found


def text_of(config: Mapping[str, Any]) -> str:
    """The file's text, four spaces deep as the engine's own examples are."""
    return json.dumps(config, indent=4, ensure_ascii=False) + "\n"
