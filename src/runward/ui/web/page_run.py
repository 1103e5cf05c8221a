"""The page of one run: how it stands, its attempts with what proves their verdicts, events, the log's end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runward.ui import markup, short, text
from runward.ui.web import page_runs

ATTEMPTS, EVENTS, EVIDENCE = 20, 40, 5
"""So many are shown, the newest."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the page is made of; each as the command line gives it with `--json`."""

    status: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]
    log: Mapping[str, Any]
    """See `log_end`."""


def main(told: Told, now: float) -> markup.Markup:
    """Everything under the frame."""
    body = told.status
    _, *facts = [line.strip() for line in text.head(body, now)]  # the first one is the title here
    title = markup.element(
        "h1",
        markup.join(markup.say("span", body["run"]), markup.text(" "), page_runs.state(body, now)),
    )
    attempts = list(body["attempts"])[-ATTEMPTS:][::-1]
    older = len(body["attempts"]) - len(attempts)
    return markup.join(
        title,
        markup.say("p", body["why"], class_="lead") if body["why"] else markup.Markup(""),
        markup.listed([*facts, *_rate(body), *_policy(body), *text.checkpoints(body["checkpoints"])]),
        *(_attempt(one, body) for one in attempts),
        *([markup.say("p", f"{older} older attempts: runward status {body['run']}")] if older > 0 else []),
        _lines("What was decided, and whether it was right", text.ledger(body["ledger"])),
        _events(told.events),
        log_end(told.log),
    )


def _rate(body: Mapping[str, Any]) -> Iterator[str]:
    per_s = body["progress"].get("rate_per_s")
    if per_s and body["state"] in {"running", "restarting"}:
        yield f"rate {page_runs.rate(per_s)}"


def _policy(body: Mapping[str, Any]) -> Iterator[str]:
    if not body["watcher"]:  # else the line about the watcher says it
        yield f"policy {body['policy']}"


def _attempt(one: Mapping[str, Any], body: Mapping[str, Any]) -> markup.Markup:
    parts = [markup.say("h2", f"attempt {one['n']}{text.attempt_words(one)}")]
    verdict = one["verdict"]
    if verdict:
        parts.append(markup.say("p", short.cause(verdict), class_="verdict"))
        parts.append(_pre(text.evidence("", text.worth_showing(one)[:EVIDENCE]), "evidence"))
        parts.append(_pre(text.evidence("against: ", one["counter_evidence"][:EVIDENCE]), "against"))
    said = [line.strip() for line in text.decided(one["decision"])] if one["decision"] else []
    if one is body["attempts"][-1]:
        said += text.advice(one)
    said += [f"left: {line}" for line in one["left"]]
    said += [f"box {text.box(one['box'])}"] if one.get("box") else []
    return markup.element("section", [*parts, markup.listed(said)], class_="attempt")


def _pre(lines: Sequence[str], kind: str) -> markup.Markup:
    return markup.element("pre", markup.lines(lines), class_=kind) if lines else markup.Markup("")


def _lines(title: str, lines: Sequence[str]) -> markup.Markup:
    if not lines:
        return markup.Markup("")
    return markup.element("section", [markup.say("h2", title), markup.element("pre", markup.lines(lines))])


def _events(bodies: Sequence[Mapping[str, Any]]) -> markup.Markup:
    shown = [text.event(body) for body in bodies[-EVENTS:]]
    hidden = len(bodies) - len(shown)
    return _lines("Last events" + (f" ({hidden} older are not shown)" if hidden > 0 else ""), shown)


def log_end(log: Mapping[str, Any]) -> markup.Markup:
    """The last lines of the output, or why they are not here."""
    title = markup.say("h2", f"End of the output of attempt {log['attempt']}" if log["attempt"] else "Output")
    if log["why"]:
        return markup.element("section", [title, markup.say("p", log["why"], class_="none")])
    inside = markup.lines(log["lines"] or ["nothing was written yet"])
    return markup.element("section", [title, markup.element("pre", inside, class_="log", id="log")])
