"""Secrets out of everything that leaves the machine: reports, alerts, JSON, screens, the journal."""

import re

MASK = "***"
_KEPT = rf"\g<k>{MASK}"
"""What stands before a secret stays."""
_NAMES = (
    r"(?:(?:api|account|shared[_-]?access|encryption|master|signing)[_-]?key|access[_-]?key(?:[_-]?id)?"
    r"|secret(?:[_-]?(?:access[_-]?)?key)?|(?:access|auth|refresh|session|bearer|hub|sas)?[_-]?token"
    r"|passwd|password|passphrase|credentials?|private[_-]?key|client[_-]?secret|signature|cookie|dsn)"
    r"(?:[_-](?:id|base|value))?"
)
_OF_TEXT = (
    r"(?:[eb]os|pad|unk|sep|cls|mask|image|audio|video|special|stop|start|end|eot|next|last|first|prev|new|per"
    r"|num|max|min|target|draft|think\w*)[_-]?token"
)
"""Tokens of a tokenizer, which are no secrets."""
_PREFIX = r"(?:[A-Za-z0-9]+[_-]){0,8}"
_PATTERNS: list[tuple[str, int, str]] = [
    (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
        re.DOTALL,
        MASK,
    ),
    (
        r"(?P<k>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:)[^\s/@]{1,200}(?=@)",
        re.IGNORECASE,
        _KEPT,
    ),
    (
        r"(?P<k>\bAuthorization[\"']?\s*[:=]\s*[\"']?(?:\w+ )?)[^\s\"',}]{6,}",
        re.IGNORECASE,
        _KEPT,
    ),
    (
        r"(?P<k>\b(?i:bearer|basic)\s+)(?=[^\s\"']*[0-9=])[A-Za-z0-9._~+/=-]{8,}",
        0,
        _KEPT,
    ),
    (r"\b(?:AKIA|ASIA|AIDA|AROA)[A-Z0-9]{12,20}\b", 0, MASK),
    (
        r"\b(?:hf_|ghp_|gho_|ghs_|ghu_|github_pat_|glpat-|xox[abprs]-|sk-(?:ant-|proj-)?|pk_live_|sk_live_|rk_live_|npm_|dop_v1_|dapi|pypi-|AIza|ya29\.|nvapi-|wandb_v1_|gsk_|r8_|SG\.)[A-Za-z0-9_.-]{12,}",
        0,
        MASK,
    ),
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*", 0, MASK),
    (
        (
            r"(?P<k>\bhooks\.slack\.com/(?:services|workflows)/|\bdiscord(?:app)?\.com/api/webhooks/\d+/"
            r"|\bwebhook\.office\.com/|\bapi\.telegram\.org/bot)[^\s\"']+"
        ),
        0,
        _KEPT,
    ),
    (r"(?P<k>\b\d{8,10}:)[A-Za-z0-9_-]{35}\b", 0, _KEPT),
    (
        r"(?P<k>[?&](?:sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|token|access_token|key|api_key)=)[^&\s\"']{4,}",
        re.IGNORECASE,
        _KEPT,
    ),
    (
        rf"(?P<k>(?<![A-Za-z0-9_-])(?!{_OF_TEXT}){_PREFIX}{_NAMES}\\?[\"']?\s*(?:[:=]|=>)\s*\\?[\"']?)(?!\d+(?:\.\d+)?(?:[\s,}})\]]|$))(?!(?:true|false|none|null)\b)[^\s\"',;}})\]<\[][^\s\"',;}})\]]{{2,}}",
        re.IGNORECASE,
        _KEPT,
    ),
    (
        (
            r"(?P<k>\bcurl\b[^\n]{0,200}? (?:-u|--user)[ =]?[^\s:]{1,100}:|\bsshpass -p ?"
            r"|\b(?:docker|podman|nerdctl|helm|skopeo|crane|oras|oc)\b[^\n]{0,60}?\blogin\b[^\n]{0,120}? -p[ =]?"
            r"|--from-literal=[^\s=]{1,100}=|\"auth\"\s*:\s*\")[^\s\"]+"
        ),
        0,
        _KEPT,
    ),
    (
        r"(?P<k>\b[A-Z0-9_]{0,40}(?:API_KEY|TOKEN|SECRET|PASSWORD)\s+)(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{12,}",
        0,
        _KEPT,
    ),
    (
        r"(?P<k>\b(?:wandb|api|key|login)\b[^\n]{0,30}?\b)[0-9a-f]{40}\b",
        re.IGNORECASE,
        _KEPT,
    ),
]
"""Pattern, flags, what stands in its place; `re` compiles and keeps them when a text first looks suspicious."""
_KEY_BODY = (
    r"(?m)^(?P<k>\W{0,20})(?=[A-Za-z0-9+/]*[g-zG-Z+/])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])"
    r"(?=[A-Za-z0-9+/]*\d)[A-Za-z0-9+/]{64,76}={0,2}$"
)
"""A line of a key file; never a digest, which is hexadecimal."""
_RUN = re.compile(r"[A-Za-z0-9+/]{64}")
_FLAG = (
    rf"(?i)(?P<k>--(?!{_OF_TEXT}){_PREFIX}(?:{_NAMES}|(?<=[a-z0-9][_-])key)[ =]+)"
    r"(?:\"[^\"]+\"|'[^']+'|(?!\d+(?:\s|$))[^\s-]\S{2,})"
)
"""An option of a command line with its value. Both are compiled only where a text may hold them: each takes 10 ms."""
_HINT = re.compile(
    r"(?i)key|token|secret|passw|passphrase|credential|signature|bearer|basic |://|auth|cookie|dsn|eyJ|AKIA|ASIA"
    r"|AIDA|AROA|hf_|gh[opsu]_|github_pat|glpat|xox|sk-|_live_|npm_|dop_|dapi|pypi-|AIza|ya29|nvapi|wandb|gsk_|r8_"
    r"|SG\.|sig=|curl |login|sshpass|from-literal|webhook|hooks\.|\d:[A-Za-z]|[A-Za-z0-9+/]{64}"
)


def text(raw: str) -> str:
    """`raw` with its secrets masked. Bounded by its input; never raises.

    >>> text("login with https://bob:hunter22@host/x and HF_TOKEN=hf_abcdefghijklmnop")
    'login with https://bob:***@host/x and HF_TOKEN=***'
    """
    if not _HINT.search(raw):
        return raw
    if _RUN.search(raw):
        raw = re.sub(_KEY_BODY, _KEPT, raw)
    if "--" in raw:
        raw = re.sub(_FLAG, _KEPT, raw)
    for pattern, flags, mask in _PATTERNS:
        raw = re.sub(pattern, mask, raw, flags=flags)
    return raw
