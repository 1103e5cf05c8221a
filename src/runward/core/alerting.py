"""Which events a person is told of: one page an incident, grouped, resolved, reminded, never twice.

A board is the fold of journalled events; `due` says what is to be sent now. Instants for people are wall
seconds, waiting is monotonic seconds; both are arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runward.core import durations, events, notices, run


@dataclass(frozen=True, slots=True)
class Settings:
    """When a person is told. Seconds."""

    words: frozenset[notices.Word] = frozenset(notices.Word)
    """Words that are sent at all."""
    blind_after_s: float = 900.0
    """A run that is not seen for less is nobody's business."""
    group_wait_s: float = 10.0
    """How long alerts wait for others of their word; ends of runs do not wait."""
    group_from: int = 3
    """So many runs with the same word are one notice."""
    remind_s: float = 4 * 3600.0
    """Between reminders while an alert fires; 0: none."""
    reminders: int = 6
    per_hour: int = 30
    """Notices an hour, ends of runs not counted: what is over waits, and says how many there were."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that is wrong now, until an event says otherwise."""

    key: str
    """Run and kind: the same trouble again is the same alert."""
    message: notices.Message
    since: float
    """Wall time."""
    due_at: float
    """Monotonic: when it is told (again)."""
    told: int = 0
    """Notices so far; an alert that was never told is resolved in silence."""


@dataclass(frozen=True, slots=True)
class Board:
    """What fires, what waits to be told, what was told lately."""

    alerts: tuple[Alert, ...] = ()
    waiting: tuple[notices.Message, ...] = ()
    """Told at the next `due`: ends, recoveries, resolutions."""
    told_at: tuple[float, ...] = ()
    held_back: int = 0

    def alert(self, key: str) -> Alert | None:
        """The alert of a key, if it fires."""
        return next((alert for alert in self.alerts if alert.key == key), None)


_LASTING = 256


_OVER: dict[type[events.Event], tuple[str, ...]] = {
    # The end itself is the news: what hung or was not finite is told with it, not apart.
    events.AttemptEnded: ("stall", "loss"),
    events.RunEnded: ("stall", "loss", "contact", "waiting"),
    events.AttemptStarted: ("waiting",),
    events.Recovered: ("waiting",),
}
"""Alerts that end in silence with an event."""


def observe(board: Board, event: events.Event, after: run.RunState, settings: Settings, now: float) -> Board:
    """The board after a journalled event; `after` is the run's state with it applied. Total."""
    for kind in _OVER.get(type(event), ()):
        board = _cleared(board, after.run, kind)
    resolved = _resolution(event)
    if resolved is not None:
        return _resolve(board, after.run, *resolved, event.at)
    match event:
        case events.RunEnded():
            return _ended(board, event, after)
        case events.Recovered():
            return _tell(board, notices.recovered(event, after))
        case events.StallDetected():
            return _fire(board, "stall", notices.stalled(event, after), event.at, now + settings.group_wait_s)
        case events.NonfiniteLoss():
            return _fire(
                board, "loss", notices.nonfinite(event, after), event.at, now + settings.group_wait_s
            )
        case events.ContactLost():
            return _fire(
                board, "contact", notices.blind(event, after), event.at, now + settings.blind_after_s
            )
        case events.Decided(action="wait"):
            return _fire(board, "waiting", notices.waits(event, after), event.at, now + settings.group_wait_s)
    return board


def _resolution(event: events.Event) -> tuple[str, str] | None:
    """Which alert an event resolves, and the words for it."""
    match event:
        case events.StallCleared():
            return "stall", f"moves again after {durations.format_duration(event.silent_s)} without progress"
        case events.LossFiniteAgain():
            return "loss", "the loss is finite again"
        case events.ContactRegained():
            return "contact", f"seen again after {durations.format_duration(event.blind_s)}"
    return None


def due(board: Board, settings: Settings, now: float) -> tuple[Board, tuple[notices.Message, ...]]:
    """The board and what is to be sent now: ends first, then alerts and reminders, grouped by word."""
    wanted = [message for message in board.waiting if message.word in settings.words]
    board = replace(board, waiting=())
    ripe = [alert for alert in board.alerts if _ripe(alert, settings, now)]
    room = max(0, settings.per_hour - sum(1 for at in board.told_at if now - at < 3600.0))
    messages = _grouped([_again(alert) for alert in ripe], settings)
    sent = messages[:room]
    late = len(messages) - len(sent)
    if sent and board.held_back:
        note = f"{board.held_back} more alerts were held back in the last hour"
        sent[0] = replace(sent[0], text=f"{sent[0].text}\n{note}")
    told = {alert.key for alert in ripe} if not late else _keys_of(sent, ripe)
    alerts = tuple(_told(alert, settings, now) if alert.key in told else alert for alert in board.alerts)
    held_back = 0 if sent else board.held_back
    recent = [at for at in board.told_at if now - at < 3600.0] + [now] * len(sent)
    board = Board(alerts, (), tuple(recent[-settings.per_hour :]), min(held_back + late, 10**6))
    return board, (*wanted, *sent)


def rebuilt(history: Sequence[events.Event], settings: Settings, now: float, wall: float) -> Board:
    """The board of a run whose journal was written by earlier watchers: what fires, and the news of the last day.

    What was told before is known by its id to whoever delivers.
    """
    board, state = Board(), run.RunState()
    for event in history:
        state = run.apply(state, event)
        board = observe(board, event, state, settings, now - max(0.0, wall - event.at))
    return replace(board, waiting=tuple(one for one in board.waiting if wall - one.at < _NEWS_S))


_NEWS_S = 24 * 3600.0


def _fire(board: Board, kind: str, message: notices.Message, since: float, due_at: float) -> Board:
    key = f"{message.run}/{kind}"
    if board.alert(key) is not None:
        return board
    return replace(board, alerts=(*board.alerts, Alert(key, message, since, due_at))[-_LASTING:])


def _tell(board: Board, message: notices.Message) -> Board:
    if any(other.id == message.id for other in board.waiting):
        return board
    return replace(board, waiting=(*board.waiting, message)[-_LASTING:])


def _cleared(board: Board, name: str, kind: str) -> Board:
    return replace(board, alerts=tuple(a for a in board.alerts if a.key != f"{name}/{kind}"))


def _resolve(board: Board, name: str, kind: str, words: str, at: float) -> Board:
    alert = board.alert(f"{name}/{kind}")
    board = _cleared(board, name, kind)
    if alert is None or not alert.told:
        return board
    old = alert.message
    since = durations.format_duration(max(0.0, at - alert.since))
    message = replace(
        old,
        id=f"{old.id}:resolved",
        title=f"{name}: {words}",
        text=f"Resolved after {since}: {old.title}",
        state=notices.AlertState.RESOLVED,
        at=at,
    )
    return _tell(board, replace(message, payload={**old.payload, "state": "resolved", "words": words}))


def _ended(board: Board, event: events.RunEnded, after: run.RunState) -> Board:
    word = _END_WORDS.get(event.state)
    if word is None:
        return board  # `stopped`: the person did it
    end = notices.message(word, event, after, notices.end_title(event, after), event.why)
    return _tell(board, end)


_END_WORDS = {
    "held": notices.Word.HELD,
    "failed": notices.Word.FAILED,
    "succeeded": notices.Word.SUCCEEDED,
    "cancelled": notices.Word.CANCELLED,
}


def _speaks(alert: Alert, settings: Settings) -> bool:
    if alert.message.word not in settings.words:
        return False
    if not alert.told:
        return True
    return settings.remind_s > 0 and alert.told <= settings.reminders


def _ripe(alert: Alert, settings: Settings, now: float) -> bool:
    return _speaks(alert, settings) and alert.due_at <= now


def _again(alert: Alert) -> notices.Message:
    if not alert.told:
        return alert.message
    reminder = f"still: {alert.message.title}"
    return replace(alert.message, id=f"{alert.message.id}:{alert.told}", title=reminder)


def _told(alert: Alert, settings: Settings, now: float) -> Alert:
    return replace(alert, told=alert.told + 1, due_at=now + (settings.remind_s or 10**9))


def _grouped(messages: list[notices.Message], settings: Settings) -> list[notices.Message]:
    """Messages of one word of many runs made one; the order of their first is kept."""
    found: dict[notices.Word, list[notices.Message]] = {}
    for message in messages:
        found.setdefault(message.word, []).append(message)
    out = []
    for word, same in found.items():
        if len({message.run for message in same}) < settings.group_from:
            out += same
            continue
        names = ", ".join(message.run for message in same[:10]) + (", ..." if len(same) > 10 else "")
        text = "\n".join(message.title for message in same[:20])
        payload = {
            "schema_version": 1,
            "event": str(word),
            "state": "firing",
            "runs": [message.run for message in same],
            "alerts": [dict(message.payload) for message in same[:100]],
        }
        title = f"{len(same)} runs {word}: {names}"
        out.append(notices.Message(f"group:{same[0].id}", word, same[0].run, title, text, payload=payload))
    return out


def _keys_of(sent: list[notices.Message], ripe: list[Alert]) -> set[str]:
    """Which alerts a part of the messages told."""
    runs: set[tuple[notices.Word, str]] = set()
    for message in sent:
        names = message.payload.get("runs") if message.id.startswith("group:") else None
        runs |= {(message.word, name) for name in names or (message.run,)}
    return {alert.key for alert in ripe if (alert.message.word, alert.message.run) in runs}
