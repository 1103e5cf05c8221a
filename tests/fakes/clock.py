"""Time that moves when a test says so."""

from dataclasses import dataclass


@dataclass
class FakeClock:
    now: float = 1_900_000_000.0
    uptime: float = 1000.0
    boot: str = "boot-1"

    def wall(self) -> float:
        return self.now

    def mono(self) -> float:
        return self.uptime

    def boot_id(self) -> str:
        return self.boot

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.uptime += seconds
