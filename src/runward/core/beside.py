"""What nvidia-smi and the node's state say beside a log, as causes and as the reason of what its lines say."""

import json
import re
from collections.abc import Mapping

from runward.core import (
    candidates,
    casebook,
    circumstances,
    context,
    failures,
    regexes,
    told_states,
    told_values,
    xids,
)

_C, _A = failures.Cause, failures.Action
_DEVICE = candidates.GENERIC - 2
"""Above a lost peer and a hang, below what a program says of itself."""
_PAST = candidates.SYMPTOM + 1
"""A node that was taken out of service: that may be the consequence, but who lost a peer lost it there."""
SILENT_S = 300.0

# -- nvidia-smi ----------------------------------------------------------------------------------------------

_SICK = (
    r"(?i)\bERR!|\brequires? reset\b|\breset required\b|(?<!NVML: )\bUnknown Error\b|\brev ff\b|\bis lost\b"
    r"|\bfall(?:en|s) off\b|\b(?:hangs?|hung|stuck|blocks?|freezes|frozen)\b|\btim(?:es|ed) out\b|\btimeout\b"
    r"|\b(?:does not|doesn.t|did not|didn.t|never) (?:return|answer|respond|come back|finish|end)\w*|\bno answer\b"
    r"|\bnot responding\b|(?<![a-z])(?:uncorr\w*|double[ -]?bit|DBEs?)\b\.?"
    r"(?:[ ._-](?:volatile|aggregate|double|bit|ECC|errors?|total|count)){0,5}"
    r"[\"' :=]{1,4}[1-9]"
    r"|\b(?:failure|pending)[^:;,\n]{0,30}[:=] ?[\"']?yes\b|\bpower[ -]cable|\bin an? (?:bad|unrecoverable|error) state"
)
_OF_ALL = r"(?i)\b(?P<seen>\d{1,3}) (?:of|/|out of) (?P<all>\d{1,3}) (?:GPUs?|cards?|devices?)\b"
_XID = r"(?i)\bxid\b[^\d\n]{0,30}(?:\([^)\n]{0,40}\)\s*:?\s*)?(?P<xid>\d{1,3})\b"
_NONE = r"(?i)\bNo devices were found\b"
_NUMBER = r"\d{1,7}(?:\.\d{1,3})?"
_PAIRS = rf"(?i)(?P<used>{_NUMBER}) ?(?:[MG]i?B)? ?(?:used )?(?:/|,|of|out of) {{0,4}}(?P<total>{_NUMBER}) ?[MG]i?B\b"
_USED_KEYS = rf"(?i)\"[^\"]{{0,20}}used[^\"]{{0,12}}\": ?\"?({_NUMBER})"
_TOTAL_KEYS = rf"(?i)\"[^\"]{{0,20}}total[^\"]{{0,12}}\": ?\"?({_NUMBER})"
_FULL_WORDS = (
    r"(?i)\bfull\b|\bmemory\b[^\n;]{0,20}\b(?:9[6-9]|100) ?%|\b(?:9[6-9]|100) ?% (?:of )?(?:GPU )?memory"
)
_OTHERS = r"(?i)\b(?:process(?:es)?|pid)\b[ :=]{0,3}\d{2,8}|\buser \w|\b(?:an)?other (?:user|job|process)"
_FULL = 0.95
_NOT_BEGUN = r"_NOT_INITIALIZED\b|\b(?:cublas|cudnn|cusolver|cusparse|curand)\w*Create\b"


def full_card(text: str) -> bool:
    """Whether the cards that nvidia-smi shows have no memory left.

    >>> [full_card(one) for one in ("80994MiB / 81559MiB", "12 of 80 GiB", '{"used": 80001, "total": 81559}')]
    [True, False, True]
    """
    pairs = [(float(one["used"]), float(one["total"])) for one in regexes.ready(_PAIRS).finditer(text)]
    used, total = (
        [float(one) for one in regexes.ready(keys).findall(text)] for keys in (_USED_KEYS, _TOTAL_KEYS)
    )
    pairs += list(zip(used, total, strict=True)) if len(used) == len(total) else []
    if pairs:
        return all(_FULL * whole <= taken <= whole for taken, whole in pairs)
    return bool(regexes.ready(_FULL_WORDS).search(text))


def held_by_others(text: str) -> bool:
    """Whether nvidia-smi names who else holds the memory of a card."""
    return bool(regexes.ready(_OTHERS).search(text)) and "no running process" not in text.lower()


def _sick(text: str) -> str:
    """What nvidia-smi shows of a card that is broken; empty where it shows none."""
    found = regexes.ready(_SICK).search(text)
    if found:
        return found[0]
    counted = regexes.ready(_OF_ALL).search(text)
    return counted[0] if counted and int(counted["seen"]) < int(counted["all"]) else ""


def _card(ctx: context.Context, book: casebook.Casebook) -> candidates.Candidate | None:
    text = ctx.extra.get("nvidia_smi", "")
    if not text:
        return None
    told = regexes.ready(_XID).search(text)
    reading = xids.read(int(told["xid"]), text) if told else None
    if reading is not None and reading.cause is _C.GPU_HARDWARE:
        return _made(_C.GPU_HARDWARE, reading.weight, f"nvidia-smi shows {reading.text}", text)
    if regexes.ready(_NONE).search(text) and book.progress:
        return _made(_C.DRIVER, candidates.SPECIFIC + 2, "nvidia-smi finds no GPU any more", text)
    shown = _sick(text)
    return _made(_C.GPU_HARDWARE, _DEVICE, f"nvidia-smi: {shown}", text) if shown else None


def _made(cause: failures.Cause, weight: int, summary: str, text: str) -> candidates.Candidate:
    return candidates.Candidate(
        cause,
        _A.RESTART_ELSEWHERE,
        weight,
        f"beside_{cause}",
        summary.replace("{", "(").replace("}", ")"),
        source="nvidia_smi" if cause is not _C.NODE_FAILURE else "node",
        text=text[:300],
    )


# -- the node ------------------------------------------------------------------------------------------------

_NODE_DOWN = (
    r"(?i)\bnot[ _-]?ready\b|\bdown\b|\bunreach\w*|\bunresponsive\b|\bnot (?:responding|reachable|answering)\b"
    r"|\blost\b|\bfail(?:ed|ing|ure)?\b|\boffline\b|\breboot(?:ed|ing)?\b|\brestarted\b|\bterminated\b|\bimpaired\b"
    r"|\bpower(?:ed)?[ -]?(?:off|cycled?|loss|outage)\b|\bpanic\w*|\bcrashed\b|\bdead\b|\bhalted\b|\bno[ _]respon\w*"
    r"|\bshut ?down\b|\bunhealthy\b|\bready[\"']?[ :=]{1,3}\"?(?:false|unknown)"
    r"|\"type\": ?\"Ready\"[^}]{0,80}\"status\": ?\"(?:False|Unknown)\""
)
_DRAINED = r"(?i)\bdrain(?:ed|ing)?\b|\bcordon\w*|\bmaint(?:enance)?\b|\bquarantin\w*|\bSchedulingDisabled\b"
_NOT = (
    r"(?i)\b(?:not|never|no|isn.t|wasn.t|without|0)\s+(?:yet |been )?"
    r"(?:down|drain\w*|lost|fail\w*|reboot\w*|offline|crash\w*|dead|cordon\w*)"
)


def _node(ctx: context.Context) -> candidates.Candidate | None:
    text = _of_node(ctx.extra.get("node", ""))
    if not text or regexes.ready(_NOT).search(text):
        return None
    if regexes.ready(_NODE_DOWN).search(text):
        return _made(_C.NODE_FAILURE, _DEVICE, f"its node: {text[:120]}", text)
    if regexes.ready(_DRAINED).search(text):
        return _made(_C.NODE_FAILURE, _PAST, f"its node was taken out of service: {text[:100]}", text)
    return None


def _of_node(text: str) -> str:
    """What is said of a node beside its name."""
    if text[:1] in "{[":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if isinstance(value, Mapping):
            return told_values.flat({k: v for k, v in value.items() if k not in _NAMES})
        return text
    return re.sub(r"^\s*[\w.-]+", "", text).strip()


_NAMES = ("name", "node", "host", "hostname")


# -- memory of the host --------------------------------------------------------------------------------------

_MEMORY_KEYS = ("mem", "memory", "host_mem", "host_memory", "ram", "cgroup", "cpu")
_IN_USE = rf"(?i)\b(?P<used>{_NUMBER}) ?(?:[MGT]i?B)? ?(?:of|/|out of) ?(?P<whole>{_NUMBER}) ?[MGT]i?B\b"
_SHARE = r"(?i)\b(?P<share>\d{2,3}(?:\.\d{1,3})?) ?%"
_NEARLY = 0.97


def memory_full(ctx: context.Context) -> bool:
    """Whether the host's memory, or the limit of the run's, was nearly used up by the last reading."""
    for key in _MEMORY_KEYS:
        text = ctx.extra.get(key, "")
        read = [
            float(one["used"]) / float(one["whole"])
            for one in regexes.ready(_IN_USE).finditer(text)
            if float(one["whole"])
        ]
        if not read and key != "cpu":
            read = [float(one["share"]) / 100 for one in regexes.ready(_SHARE).finditer(text)]
        if read and _NEARLY <= read[-1] <= 1.0:
            return True
    return False


def killed_for_memory(found: list[candidates.Candidate], ctx: context.Context) -> list[candidates.Candidate]:
    """The candidates, with the lack of memory as the reason of a SIGKILL."""
    if not any(ctx.extra.get(key) for key in _MEMORY_KEYS) or not memory_full(ctx):
        return found
    summary = "{rank} was killed while the host's memory was nearly used up"
    return [
        one._replace(cause=_C.HOST_OOM, action=_A.CHANGE, summary=summary) if one.cause is _C.KILLED else one
        for one in found
    ]


# -- both ----------------------------------------------------------------------------------------------------


def gather(ctx: context.Context, book: casebook.Casebook) -> list[candidates.Candidate]:
    """What they say, less what says little of a run that lives and does its work."""
    found = [one for one in (_card(ctx, book), _node(ctx)) if one is not None]
    stands = (ctx.silent_s or 0) >= SILENT_S or told_states.stands_still(ctx.extra.get("process", ""))
    return [one for one in found if one.weight >= candidates.PROOF or stands or ctx.running is not True]


def settled(
    found: list[candidates.Candidate], book: casebook.Casebook, ctx: context.Context
) -> list[candidates.Candidate]:
    """The candidates, with the card as the cause of what failed on it."""
    text = ctx.extra.get("nvidia_smi", "")
    if not text:
        return found
    found = [circumstances.in_exclusive_mode(one, book, text) for one in found]
    if full_card(text):
        return [_on_full_card(one, text) for one in found]
    shown = _sick(text)
    return [_on_sick_card(one, shown) for one in found] if shown else found


def _on_full_card(one: candidates.Candidate, text: str) -> candidates.Candidate:
    if one.cause not in (_C.CUDA_ERROR, _C.GPU_OOM) or not regexes.ready(_NOT_BEGUN).search(one.text):
        return one
    others = held_by_others(text)
    summary = "{rank}: a CUDA library could not begin: the GPU's memory is " + (
        "taken by others" if others else "full"
    )
    return one._replace(
        cause=_C.GPU_OOM, action=_A.RESTART_ELSEWHERE if others else _A.CHANGE, summary=summary
    )


def _on_sick_card(one: candidates.Candidate, shown: str) -> candidates.Candidate:
    """A fault of CUDA that does not come of the program's own check, on a machine whose card is broken."""
    if one.cause is not _C.CUDA_ERROR or one.entry is None or "assert" in one.text.lower():
        return one
    summary = "{rank} failed on a GPU, and nvidia-smi shows that one is broken: " + shown.replace(
        "{", ""
    ).replace("}", "")
    return one._replace(cause=_C.GPU_HARDWARE, action=_A.RESTART_ELSEWHERE, summary=summary)
