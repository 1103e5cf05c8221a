"""The page of all runs: what asks for a look stands first, and the words are those of `runward ps`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from runward.core import durations
from runward.ui import markup, sight, text

MOST_ENDED = 200
"""Ended runs that are shown, the newest."""
_HEAD = ("Run", "State", "Step", "Rate", "Progress", "Attempt", "Why", "Where", "Watcher")


def title(rows: Sequence[Mapping[str, Any]], now: float) -> str:
    """For the tab of a browser: what asks for a look comes first."""
    blind = sum(sight.blind(row, now) is not None for row in rows)
    counts = Counter(row["state"] for row in rows)
    words = [f"{blind} not seen"] if blind else []
    words += [f"{counts[word]} {word}" for word in ("held", "failed", "running") if counts[word]]
    return ", ".join(words) or f"{len(rows)} runs"


def main(rows: Sequence[Mapping[str, Any]], now: float, place: str) -> markup.Markup:
    """The table. `rows`: those of `ps --json`, oldest first."""
    if not rows:
        line = f"No runs in {place}. Start one with: runward run -- COMMAND"
        return markup.join(markup.say("h1", "Runs"), markup.say("p", line, class_="none"))
    newest = rows[::-1]
    live = [row for row in newest if row["state"] in sight.LIVE]
    live.sort(
        key=lambda row: sight.tone(row, now) != "warn"
    )  # what is not seen or does not move stands first
    ended = [row for row in newest if row["state"] not in sight.LIVE]
    parts = [
        markup.element("h1", markup.text(f"Runs: {title(rows, now)}")),
        markup.table(_HEAD, [_row(row, now) for row in live + ended[:MOST_ENDED]], id="runs"),
    ]
    if len(ended) > MOST_ENDED:
        parts.append(
            markup.say("p", f"{len(ended) - MOST_ENDED} older runs are not shown: runward ps has them.")
        )
    return markup.join(*parts)


def _row(row: Mapping[str, Any], now: float) -> markup.Markup:
    tone = sight.tone(row, now)
    link = markup.say("a", row["run"], href=f"runs/{quote(row['run'], safe='~')}")
    cells = [
        markup.element("th", link, scope="row"),
        markup.element("td", state(row, now)),
        markup.say("td", text.steps(row["step"], row["total_steps"]), class_="number"),
        markup.say("td", rate(row.get("rate_per_s"))),
        markup.say("td", _progress(row, now)),
        markup.say("td", row["attempt"] if row["attempt"] is not None else "-", class_="number"),
        markup.say("td", why(row, now)),
        markup.say("td", row["target"] or row["backend"]),
        markup.say("td", sight.watcher(row, now)),
    ]
    return markup.element("tr", cells, class_=tone)


def state(row: Mapping[str, Any], now: float) -> markup.Markup:
    """The state word, and what is to be known beside it."""
    words = [markup.say("span", row["state"], class_=f"state {sight.tone(row, now)}")]
    if row["paused"]:
        words.append(markup.say("span", "paused", class_="state warn"))
    if sight.blind(row, now) is not None:
        words.append(markup.say("span", "not seen", class_="state warn"))
    return markup.join(*words)


def why(row: Mapping[str, Any], now: float) -> str:
    """What is wrong with the look, else with the run; its last cause where nothing else is said."""
    cause = row["cause"] if row["cause"] != "none" else None
    said = [sight.blind(row, now), row.get("why") or cause]
    return "; ".join(str(one) for one in said if one) or "-"


def rate(per_s: float | None) -> str:
    """Steps a second, or the time of one where it takes longer."""
    if not per_s or per_s <= 0:
        return "-"
    return f"{per_s:.3g}/s" if per_s >= 1 else f"{durations.format_duration(1 / per_s)}/step"


def _progress(row: Mapping[str, Any], now: float) -> str:
    return f"{text.ago(row['progress_at'], now)} ago" if row["progress_at"] else "-"
