"""Whose a host is that a message names: one of the run's own network, or one out in the world."""

from runward.core import regexes

_NAMED = (
    r"(?i)://(?:[^/@\s'\"]{1,80}@)?(?:\[([0-9a-f:]{2,40})\]|([\w.-]{1,200}))"
    r"|\bhost=['\"]([^'\"]{1,200})['\"]"
    r"|\bresolve(?: host(?:name)?| address)?:? ['\"]?([\w.-]{1,200})"
    r"|\b(?:connect(?:ing|ion)? to(?: host)?|lookup) ['\"]?([\w.-]{1,200})(?=:\d| port \d)"
)
OWN = (
    r"localhost|ip6-localhost|(?:0|10|127|169\.254|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3}|::1|f[cd][0-9a-f]{2}:[\w:]+"
    r"|[a-z_][\w-]{0,62}|[\w.-]{1,120}\.(?:svc|local|localdomain|internal|cluster|lan|intra|intranet|corp|home|private|arpa)"
)
"""A name without a domain, one under a domain that the world does not know, or a private address."""
LOOPBACK = r"\blocalhost\b|\b127\.0\.0\.1\b|\b0\.0\.0\.0\b|\[?::1\b|\[::\]"
"""This machine, as the address of a service."""
_HUB = r"(?i)hugging ?face|\bhf[_-]|\bhub\b"


def own(text: str) -> bool:
    """Whether all hosts that a text names, at least one, are of the run's own network; a mirror of a hub is one.

    >>> own("curl: (6) Could not resolve host: artifacts.ml.internal"), own("for url: https://hub.example/x")
    (True, False)
    """
    if regexes.ready(_HUB).search(text):
        return False
    names = [next(filter(None, found), "") for found in regexes.ready(_NAMED).findall(text)]
    return bool(names) and all(regexes.ready(rf"(?i)(?:{OWN})\.?").fullmatch(name) for name in names)
