"""Clusters by name: which one a submit asks for, and jobs and nodes of another than the machine's own. Pure."""

import re
from collections.abc import Mapping, Sequence

from runward.backends.slurm import sbatch_options

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
    return _named(options) or of_environment(environ) or _named(directives)


def _named(words: Sequence[str]) -> str | None:
    found = sbatch_options.last(_OPTION, words)
    return found["name"] if found is not None else None


def of_environment(environ: Mapping[str, str]) -> str | None:
    """What Slurm's own variables name."""
    return next((environ[key] for key in _VARIABLES if environ.get(key)), None)


def one(name: str) -> bool:
    """Whether it is one cluster by its name.

    >>> one("west"), one("west,east"), one("all"), one("")
    (True, False, False, False)
    """
    return bool(_NAME.fullmatch(name)) and name.lower() != "all"


def called(what: str, cluster: str | None) -> str:
    """What a job or a node is called where people read it; `cluster`: another one than the machine's own.

    >>> called("12", None), called("12", "west")
    ('12', '12@west')
    """
    return what if cluster is None else f"{what}@{cluster}"


def parted(name: str) -> tuple[str, str | None]:
    """The job or node, and the cluster, of such a name.

    >>> parted("12"), parted("n1@west"), parted("12@")
    (('12', None), ('n1', 'west'), ('12', ''))
    """
    what, at, cluster = name.partition("@")
    return what, cluster if at else None
