"""Secrets out of everything that leaves the machine: reports, alerts, JSON, screens, the journal."""

import re

MASK = "***"
_NAMES = (
    r"(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:access[_-]?)?key)?|auth[_-]?token|token|passwd|password"
    r"|passphrase|credentials?|private[_-]?key|client[_-]?secret|session[_-]?token|signature|sas|cookie|dsn)"
)
_PATTERNS: list[tuple[str, int, str]] = [
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL, MASK),
    (
        r"(?P<k>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:)[^\s/@]{1,200}(?=@)",
        re.IGNORECASE,
        rf"\g<k>{MASK}",
    ),
    (r"(?P<k>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE, rf"\g<k>{MASK}"),
    (r"\b(?:AKIA|ASIA|AIDA|AROA)[A-Z0-9]{12,20}\b", 0, MASK),
    (
        r"\b(?:hf_|ghp_|gho_|ghs_|ghu_|github_pat_|glpat-|xox[abprs]-|sk-(?:ant-|proj-)?|pk_live_|sk_live_|rk_live_|npm_|dop_v1_|dapi|pypi-|AIza|ya29\.|nvapi-|wandb_v1_|gsk_|r8_|SG\.)[A-Za-z0-9_.-]{12,}",
        0,
        MASK,
    ),
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*", 0, MASK),
    (
        r"(?P<k>[?&](?:sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|token|access_token|key|api_key)=)[^&\s\"']{4,}",
        re.IGNORECASE,
        rf"\g<k>{MASK}",
    ),
    (
        rf"(?P<k>(?<![A-Za-z])(?:[A-Za-z0-9]+[_-]){{0,4}}{_NAMES}[\"']?\s*(?:[:=]|=>)\s*[\"']?)(?!\d+(?:\.\d+)?(?:[\s,}})\]]|$))(?!(?:true|false|none|null)\b)[^\s\"',;}})\]]{{3,}}",
        re.IGNORECASE,
        rf"\g<k>{MASK}",
    ),
    (rf"(?P<k>--{_NAMES}[ =])[^\s-][^\s]{{2,}}", re.IGNORECASE, rf"\g<k>{MASK}"),
    (r"(?P<k>\b(?:wandb|api|key|login)\b[^\n]{0,30}?\b)[0-9a-f]{40}\b", re.IGNORECASE, rf"\g<k>{MASK}"),
]
"""Pattern, flags, what stands in its place; `re` compiles and keeps them when a text first looks suspicious."""
_HINT = re.compile(
    r"(?i)key|token|secret|passw|passphrase|credential|signature|bearer|basic |://|sas|cookie|dsn|eyJ|AKIA|ASIA|AIDA|AROA"
    r"|hf_|gh[opsu]_|github_pat|glpat|xox|sk-|_live_|npm_|dop_|dapi|pypi-|AIza|ya29|nvapi|wandb|gsk_|r8_|SG\.|sig="
)


def text(raw: str) -> str:
    """`raw` with its secrets masked. Bounded by its input; never raises.

    >>> text("login with https://bob:hunter22@host/x and HF_TOKEN=hf_abcdefghijklmnop")
    'login with https://bob:***@host/x and HF_TOKEN=***'
    """
    if not _HINT.search(raw):
        return raw
    for pattern, flags, mask in _PATTERNS:
        raw = re.sub(pattern, mask, raw, flags=flags)
    return raw
