"""Actions of a signal: recorded with a payload; the configuration of each is the action itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from runward.core import log_signals


class BaseMonitorAction:
    """An action that is recorded when its signal comes."""

    def __init__(self, recorded: log_signals.RecordedAction) -> None:
        self.recorded = recorded

    @property
    def config(self) -> "BaseMonitorAction":
        """An action is its own configuration."""
        return self

    @property
    def class_name(self) -> str:
        """The word of configurations and records."""
        return self.recorded.class_name

    @property
    def kind(self) -> str:
        """The same, as records have it."""
        return self.recorded.class_name

    def describe(self, job_id: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """The payload of its record."""
        fields = {key: str(value) for key, value in metadata.items()}
        return self.recorded.payload({"job_id": job_id, **fields})


MonitorActionInterface = BaseMonitorAction


class ErrorNoteAction(BaseMonitorAction):
    """Keeps a note."""

    def __init__(
        self, config: BaseMonitorAction | None = None, *, note: str = "", class_name: str = ""
    ) -> None:
        del class_name
        super().__init__(_recorded(config, "ErrorNoteAction", note))

    @property
    def note(self) -> str:
        """What is noted."""
        return self.recorded.text or ""


class RestartAction(BaseMonitorAction):
    """Annotates why a restart came; the policy alone decides."""

    def __init__(
        self, config: BaseMonitorAction | None = None, *, reason: str | None = None, class_name: str = ""
    ) -> None:
        del class_name
        super().__init__(_recorded(config, "RestartAction", reason))


class TerminationAction(BaseMonitorAction):
    """Annotates an end."""

    def __init__(
        self, config: BaseMonitorAction | None = None, *, message: str | None = None, class_name: str = ""
    ) -> None:
        del class_name
        super().__init__(_recorded(config, "TerminationAction", message))


class ExecutionAction(BaseMonitorAction):
    """Keeps a command with its `{field}` places filled in, for whoever works the records off.

    Raises ValueError for a brace that belongs to no place.
    """

    def __init__(
        self, config: BaseMonitorAction | None = None, *, command: Sequence[str] = (), class_name: str = ""
    ) -> None:
        del class_name
        words = (command,) if isinstance(command, str) else tuple(command)
        for word in words:
            try:
                log_signals.places(word)
            except ValueError as error:
                raise ValueError(f"ExecutionAction: {word!r} has {error}") from error
        made = log_signals.RecordedAction("ExecutionAction", command=words)
        super().__init__(config.recorded if config is not None else made)


def _recorded(
    config: BaseMonitorAction | None, class_name: str, text: str | None
) -> log_signals.RecordedAction:
    return config.recorded if config is not None else log_signals.RecordedAction(class_name, text)


ErrorNoteActionConfig = ErrorNoteAction
RestartActionConfig = RestartAction
TerminationActionConfig = TerminationAction
ExecutionActionConfig = ExecutionAction

_CLASSES: dict[str, type[BaseMonitorAction]] = {
    "ErrorNoteAction": ErrorNoteAction,
    "RestartAction": RestartAction,
    "TerminationAction": TerminationAction,
    "ExecutionAction": ExecutionAction,
}


def of(recorded: log_signals.RecordedAction) -> BaseMonitorAction:
    """The action of a value of the core."""
    made: Any = _CLASSES[recorded.class_name]
    found: BaseMonitorAction = made(BaseMonitorAction(recorded))
    return found
