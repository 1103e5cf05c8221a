"""Where the flight-recorder dumps of an attempt lie: beside its logs, and where PyTorch was told to put them."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runward.core import flight

_SETTINGS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_USUAL = ("/tmp/nccl_trace_rank_", "~/.cache/torch/comm_lib_trace_rank_")  # noqa: S108 -- PyTorch's choice
NEAR_S = 3600.0
"""How much older than the end of its log a dump may be where the begin of the attempt is not known."""
_LATER_S = 600.0
_FOLDERS = 64


@dataclass(frozen=True, slots=True)
class Search:
    """One attempt's dumps."""

    logs: Sequence[str]
    """Paths of its logs."""
    since: float = -math.inf
    until: float = math.inf
    """Seconds since the epoch between which it lived."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The environment that it was started with."""
    cwd: str = ""
    here: bool = False
    """Whether it ran on this machine: then PyTorch's usual places count too."""

    def __call__(self, named: Sequence[str]) -> "flight.FlightSummary | None":
        """As `app.diagnose.Dumps`: `named` are the prefixes that its log names."""
        from runward.probes import flight_recorder

        told = [self.env[name] for name in _SETTINGS if self.env.get(name)]
        usual = [os.path.expanduser(path) for path in _USUAL] if self.here else []
        prefixes = [os.path.join(self.cwd, path) for path in (*named, *told, *usual)]
        where = flight_recorder.Where(
            _folders(self.logs),
            [path for path in prefixes if os.path.isabs(path)],
            self.since,
            self.until + _LATER_S,
        )
        files = flight_recorder.find(where)
        return flight_recorder.summary(files) if files else None


def _folders(logs: Iterable[str]) -> list[str]:
    found = dict.fromkeys(os.path.dirname(os.path.abspath(path)) for path in logs if os.path.exists(path))
    return list(found)[:_FOLDERS]
