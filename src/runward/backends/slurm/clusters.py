"""Which cluster a submit asks for: by options of sbatch, else by the environment, else by the script. Pure."""

import re
from collections.abc import Mapping, Sequence

_OPTION = re.compile(r"(?:^|\s)(?:--clusters?(?:=|\s+)|-M\s*=?\s*)[\"']?(?P<name>[\w.,-]+)")
_NAME = re.compile(r"[\w.-]+")
_VARIABLES = ("SBATCH_CLUSTERS", "SLURM_CLUSTERS")


def asked(options: Sequence[str], environ: Mapping[str, str], directives: Sequence[str]) -> str | None:
    """The cluster, or several parted by commas; None for the machine's own.

    >>> asked(["--clusters=a"], {}, ["#SBATCH -M b"]), asked([], {}, ["#SBATCH -M b"]), asked(["-M", "c"], {}, [])
    ('a', 'b', 'c')
    >>> asked([], {"SLURM_CLUSTERS": "d"}, ["#SBATCH -M b"]), asked(["--cluster-constraint=x", "--mem=1"], {}, [])
    ('d', None)
    """
    return _last(" ".join(options)) or of_environment(environ) or _last("\n".join(directives))


def of_environment(environ: Mapping[str, str]) -> str | None:
    """What Slurm's own variables name."""
    return next((environ[key] for key in _VARIABLES if environ.get(key)), None)


def one(name: str) -> bool:
    """Whether it is one cluster by its name.

    >>> one("west"), one("west,east"), one("all"), one("")
    (True, False, False, False)
    """
    return bool(_NAME.fullmatch(name)) and name.lower() != "all"


def _last(text: str) -> str | None:
    found = _OPTION.findall(text)
    return str(found[-1]) if found else None
