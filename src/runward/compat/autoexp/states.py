"""States that a signal proves: `CrashState`, `SuccessState` and the others, each with its `key`."""

from dataclasses import dataclass

from runward.core import log_signals


@dataclass
class MonitorStateInterface:
    """What all states have in common."""

    class_name: str = ""
    key: str = ""


class BaseMonitorState(MonitorStateInterface):
    """A state; made from nothing, from a key, or from a configuration."""

    _class_name = ""

    def __init__(
        self, config: "MonitorStateInterface | None" = None, key: str = "", class_name: str = ""
    ) -> None:
        del class_name
        said = key or (config.key if config is not None else "")
        super().__init__(self._class_name, said or log_signals.STATES.get(self._class_name, ""))

    @property
    def config(self) -> "BaseMonitorState":
        """A state is its own configuration."""
        return self

    def as_signal_state(self) -> log_signals.State:
        """The same as a value of the core."""
        return log_signals.State(self.class_name, self.key)


class SuccessState(BaseMonitorState):
    """The job is done."""

    _class_name = "SuccessState"


class CrashState(BaseMonitorState):
    """The job has failed."""

    _class_name = "CrashState"


class StalledState(BaseMonitorState):
    """The job does not move."""

    _class_name = "StalledState"


class TimeoutState(BaseMonitorState):
    """The job's time is over, or nobody knows it any more."""

    _class_name = "TimeoutState"


class StartedState(BaseMonitorState):
    """The job runs."""

    _class_name = "StartedState"


class PendingState(BaseMonitorState):
    """The job waits."""

    _class_name = "PendingState"


SuccessStateConfig = SuccessState
CrashStateConfig = CrashState
StalledStateConfig = StalledState
TimeoutStateConfig = TimeoutState
StartedStateConfig = StartedState
PendingStateConfig = PendingState

CLASSES: dict[str, type[BaseMonitorState]] = {
    "SuccessState": SuccessState,
    "CrashState": CrashState,
    "StalledState": StalledState,
    "TimeoutState": TimeoutState,
    "StartedState": StartedState,
    "PendingState": PendingState,
}


def of(state: log_signals.State | None) -> BaseMonitorState | None:
    """The state of a value of the core."""
    return CLASSES[state.class_name](key=state.key) if state is not None else None
