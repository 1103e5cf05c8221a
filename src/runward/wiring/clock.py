"""The machine's clocks behind the Clock port."""

import time


class SystemClock:
    """Real time."""

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def mono(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def boot_id(self) -> str:
        """The kernel's id of this boot; empty where /proc is not to be had."""
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""
