"""The process that talks to NVML, so that a driver that blocks for ever blocks nothing else.

Started by path: one JSON request a line on stdin (`{"id": 1, "op": "fast"}`), one JSON answer a line on stdout.
It imports nothing of ours but names and NVML, and ends when its stdin does.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

import pynvml

_LINKS = 18
_LINK_ERRORS = (0, 1, 2)
"""Replay, recovery, CRC of flits. The fourth counter (CRC of data) is never zero on Hopper, and nvidia-smi hides it."""
_PCIE = {"pcie_tx_mb_s": 0, "pcie_rx_mb_s": 1}

Values = dict[str, float]
Absent = dict[str, str]


def _call(
    values: Values, absent: Absent, names: tuple[str, ...], ask: Callable[[], tuple[float, ...]]
) -> None:
    """Ask once for the numbers of `names`; NVML's own words are the reason when there are none."""
    try:
        answers = ask()
    except pynvml.NVMLError as error:
        for name in names:
            absent[name] = str(error)
        return
    except (AttributeError, TypeError) as error:
        for name in names:
            absent[name] = f"not in this NVML library ({error})"
        return
    values.update(zip(names, answers, strict=True))


def _util(handle: Any) -> tuple[float, float]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return float(rates.gpu), float(rates.memory)


def _memory(handle: Any) -> tuple[float, float]:
    """Used and all. What the driver keeps for itself (0.6 GiB on an H200) is nobody's use, as in `nvidia-smi`."""
    try:
        info = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except (pynvml.NVMLError, AttributeError, TypeError):  # a driver before 510: it cannot tell them apart
        info = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return info.used / 2**20, info.total / 2**20


def _remapped(handle: Any) -> tuple[float, float, float, float]:
    correctable, uncorrectable, pending, failed = pynvml.nvmlDeviceGetRemappedRows(handle)
    return float(correctable), float(uncorrectable), float(pending), float(failed)


def _throttle(handle: Any) -> tuple[float]:
    newer = getattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    ask = newer or pynvml.nvmlDeviceGetCurrentClocksThrottleReasons
    return (float(ask(handle)),)


class Gpu:
    """One device with what never changes, asked once."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        self.uuid = _text(pynvml.nvmlDeviceGetUUID(self.handle))
        self.name = _text(pynvml.nvmlDeviceGetName(self.handle))
        self.bus_id = _text(pynvml.nvmlDeviceGetPciInfo(self.handle).busId)
        self._fixed: Values = {}
        self._fixed_absent: Absent = {}
        h = self.handle
        _call(
            self._fixed,
            self._fixed_absent,
            ("power_limit_w",),
            lambda: (pynvml.nvmlDeviceGetEnforcedPowerLimit(h) / 1e3,),
        )
        _call(
            self._fixed,
            self._fixed_absent,
            ("sm_clock_max_mhz",),
            lambda: (float(pynvml.nvmlDeviceGetMaxClockInfo(h, pynvml.NVML_CLOCK_SM)),),
        )

    def identity(self) -> dict[str, Any]:
        """What every answer begins with."""
        return {"index": self.index, "uuid": self.uuid, "name": self.name, "bus_id": self.bus_id}

    def fast(self) -> dict[str, Any]:
        """The set of every second: six calls."""
        values, absent, h = dict(self._fixed), dict(self._fixed_absent), self.handle
        _call(values, absent, ("util_pct", "mem_util_pct"), lambda: _util(h))
        _call(values, absent, ("mem_used_mib", "mem_total_mib"), lambda: _memory(h))
        _call(values, absent, ("power_w",), lambda: (pynvml.nvmlDeviceGetPowerUsage(h) / 1e3,))
        _call(values, absent, ("sm_clock_mhz",), lambda: (float(pynvml.nvmlDeviceGetClockInfo(h, 1)),))
        _call(values, absent, ("mem_clock_mhz",), lambda: (float(pynvml.nvmlDeviceGetClockInfo(h, 2)),))
        _call(values, absent, ("temp_c",), lambda: (float(pynvml.nvmlDeviceGetTemperature(h, 0)),))
        _call(values, absent, ("throttle_mask",), lambda: _throttle(h))
        return {**self.identity(), "values": values, "absent": absent}

    def slow(self) -> dict[str, Any]:
        """ECC, remapped rows, PCIe link, NVLink, persistence, processes, MIG."""
        values: Values = {}
        absent: Absent = {}
        h, ecc = self.handle, pynvml.nvmlDeviceGetTotalEccErrors
        _call(values, absent, ("ecc_uncorrected",), lambda: (float(ecc(h, 1, 0)),))
        _call(values, absent, ("ecc_corrected",), lambda: (float(ecc(h, 0, 0)),))
        names = ("remap_correctable", "remap_uncorrectable", "remap_pending", "remap_failed")
        _call(values, absent, names, lambda: _remapped(h))
        _call(values, absent, ("pcie_gen",), lambda: (float(pynvml.nvmlDeviceGetCurrPcieLinkGeneration(h)),))
        _call(
            values, absent, ("pcie_gen_max",), lambda: (float(pynvml.nvmlDeviceGetMaxPcieLinkGeneration(h)),)
        )
        _call(values, absent, ("pcie_width",), lambda: (float(pynvml.nvmlDeviceGetCurrPcieLinkWidth(h)),))
        _call(values, absent, ("pcie_width_max",), lambda: (float(pynvml.nvmlDeviceGetMaxPcieLinkWidth(h)),))
        _call(values, absent, ("persistence",), lambda: (float(pynvml.nvmlDeviceGetPersistenceMode(h)),))
        _call(values, absent, ("nvlinks_down", "nvlink_errors"), lambda: _nvlink(h))
        processes = self._processes(absent)
        return {
            **self.identity(),
            "values": values,
            "absent": absent,
            "processes": processes,
            "mig": self._mig(),
        }

    def pcie(self) -> dict[str, Any]:
        """Throughput in MB/s; the driver samples each direction for 20 ms."""
        values: Values = {}
        absent: Absent = {}
        for name, counter in _PCIE.items():
            _call(
                values,
                absent,
                (name,),
                lambda c=counter: (pynvml.nvmlDeviceGetPcieThroughput(self.handle, c) / 1e3,),  # type: ignore[misc]
            )
        return {**self.identity(), "values": values, "absent": absent}

    def _processes(self, absent: Absent) -> list[list[Any]] | None:
        try:
            listed = pynvml.nvmlDeviceGetComputeRunningProcesses(self.handle)
        except pynvml.NVMLError as error:
            absent["processes"] = str(error)
            return None
        return [[p.pid, None if p.usedGpuMemory is None else p.usedGpuMemory / 2**20] for p in listed]

    def _mig(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        try:
            current, _ = pynvml.nvmlDeviceGetMigMode(self.handle)
            count = pynvml.nvmlDeviceGetMaxMigDeviceCount(self.handle) if current else 0
        except pynvml.NVMLError:
            return found
        for index in range(count):
            try:
                mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(self.handle, index)
                found.append(
                    {
                        "uuid": _text(pynvml.nvmlDeviceGetUUID(mig)),
                        "gi": pynvml.nvmlDeviceGetGpuInstanceId(mig),
                        "ci": pynvml.nvmlDeviceGetComputeInstanceId(mig),
                        "mem": pynvml.nvmlDeviceGetMemoryInfo(mig).total / 2**20,
                    }
                )
            except pynvml.NVMLError:
                continue
        return found


def _nvlink(handle: Any) -> tuple[float, float]:
    """Links that should be up and are not, and errors summed; raises when no link can be asked."""
    states, errors = [], 0
    for link in range(_LINKS):
        try:
            states.append(pynvml.nvmlDeviceGetNvLinkState(handle, link))
        except pynvml.NVMLError:
            if link == 0:
                raise
            break
        for counter in _LINK_ERRORS:
            try:
                errors += pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, counter)
            except pynvml.NVMLError:
                break
    up = sum(1 for state in states if state)
    return float(len(states) - up if up else 0), float(errors)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Box:
    """All devices, and the queue of their error events."""

    def __init__(self) -> None:
        pynvml.nvmlInit()
        self.driver = _text(pynvml.nvmlSystemGetDriverVersion())
        self.gpus: list[Gpu] = []
        self.lost: dict[str, str] = {}
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                self.gpus.append(Gpu(index))
            except pynvml.NVMLError as error:
                self.lost[str(index)] = str(error)
        self._events: Any = None
        self.events_unseen = self._register()

    def _register(self) -> str:
        try:
            self._events = pynvml.nvmlEventSetCreate()
            for gpu in self.gpus:
                pynvml.nvmlDeviceRegisterEvents(
                    gpu.handle, pynvml.nvmlEventTypeXidCriticalError, self._events
                )
        except pynvml.NVMLError as error:
            self._events = None
            return str(error)
        return ""

    def xids(self) -> list[list[Any]]:
        """Events that have come since the last question."""
        found: list[list[Any]] = []
        while self._events is not None and len(found) < 64:
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
                found.append([int(event.eventData), _text(pynvml.nvmlDeviceGetUUID(event.device))])
            except pynvml.NVMLError:
                break
        return found

    def answer(self, op: str) -> dict[str, Any]:
        """One question."""
        samples = [getattr(gpu, op)() for gpu in self.gpus] if op in {"fast", "slow", "pcie"} else []
        return {
            "gpus": samples,
            "driver": self.driver,
            "lost": self.lost,
            "xids": self.xids(),
            "events_unseen": self.events_unseen,
        }


def _trim() -> None:
    """Give back what only the start needed: 10 of 50 MB (glibc)."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


def main() -> None:
    """Answer until stdin ends."""
    box: Box | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if box is None:
                box = Box()
                _trim()
            answer: dict[str, Any] = box.answer(request["op"])
        except pynvml.NVMLError as error:
            box = None
            answer = {"error": str(error)}
        answer["id"] = request["id"]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
