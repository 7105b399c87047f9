"""Watch one GPU while it is measured: clocks, power, energy, temperature, and whether it slowed itself down."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from .nvml import Reading, ask, board_of, find_handle, opened

__all__ = ["PowerMeter", "throttle_reason"]

INTERVAL_S = 0.1
"""Time between two samples. NVML refreshes power and utilisation every 20 to 100 ms; asking more often costs and tells nothing."""

_SLOWDOWNS = {
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x020: "thermal slowdown by software",
    0x040: "thermal slowdown by hardware",
    0x080: "power brake",
    0x200: "board limit",
    0x400: "reliability limit",
}
"""Bits of nvmlClocksEventReasons (NVML reference, field "clocks event reasons") that mean: slower than asked for."""


def throttle_reason(bits: int) -> str | None:
    """Return why the device slowed itself down, or None.

    Idle (0x1) and what somebody chose do not count: application clocks (0x2), sync boost (0x10), display clocks (0x100).
    """
    return ", ".join(text for bit, text in _SLOWDOWNS.items() if bits & bit) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metric:
    """One metric: the NVML question, the factor to its unit, and what one number of many samples is."""

    question: str
    arguments: tuple[Any, ...] = ()
    on_board: bool = True
    read: Callable[[Any], float] = float
    summarise: Callable[[list[float]], float] = median


def _union(bits: list[float]) -> float:
    total = 0
    for one in bits:
        total |= int(one)
    return total


# Clocks, temperature and slowdowns belong to the whole card, also when a MIG slice is measured. Power and use do not: the card's
# figures would contain the neighbours' work.
_METRICS = {
    "power_w": _Metric(question="nvmlDeviceGetPowerUsage", on_board=False, read=lambda milliwatts: milliwatts / 1e3, summarise=fmean),
    "sm_clock_mhz": _Metric(question="nvmlDeviceGetClockInfo", arguments=(1,)),
    "memory_clock_mhz": _Metric(question="nvmlDeviceGetClockInfo", arguments=(2,)),
    "temperature_c": _Metric(question="nvmlDeviceGetTemperature", arguments=(0,), summarise=max),
    "utilisation_percent": _Metric(
        question="nvmlDeviceGetUtilizationRates", on_board=False, read=lambda rates: float(rates.gpu), summarise=fmean
    ),
    "throttle_bits": _Metric(question="nvmlDeviceGetCurrentClocksThrottleReasons", summarise=_union),
}
_FIELDS = (*_METRICS, "sm_clock_min_mhz", "energy_j", "throttle_reason")


class PowerMeter:
    """Sample one device, named by UUID (`GPU-...` or `MIG-...`), from `start` to `stop`. Never raises.

    The UUID is PyTorch's, since NVML counts cards in another order than CUDA. `library` stands in for the module pynvml.
    """

    def __init__(self, uuid: str, *, library: Any = None, interval_s: float = INTERVAL_S) -> None:
        self._uuid = uuid
        self._library = library
        self._interval_s = interval_s

    def start(self) -> None:
        """Open NVML, read the energy counter and begin to sample in a thread."""
        self._resources = ExitStack()
        self._samples: dict[str, list[float]] = {name: [] for name in _METRICS}
        self._reasons: dict[str, str] = {}
        self._done = threading.Event()
        self._nvml, self._unavailable = self._resources.enter_context(opened(self._library))
        if self._unavailable is None:
            self._handle, self._unavailable = find_handle(self._nvml, self._uuid)
        self._started_s = time.perf_counter()
        if self._unavailable is None:
            self._board = board_of(self._nvml, self._handle)
            self._energy = self._read_energy()
            self._thread = threading.Thread(target=self._sample_until_done, name="normbench-power", daemon=True)
            self._thread.start()

    def stop(self) -> dict[str, Any]:
        """End sampling and return plain JSON values; what could not be read is null and has its reason in `reasons`.

        power_w and utilisation_percent are means, clocks medians, temperature_c the highest, throttle_bits every bit seen;
        energy_j is the difference of the card's counter; throttle_reason is null when nothing slowed the device down. Power and energy
        include whatever else the device did.
        """
        duration_s = time.perf_counter() - self._started_s
        state: dict[str, Any] = {"uuid": self._uuid, "duration_s": duration_s, "samples": 0} | dict.fromkeys(_FIELDS)
        with self._resources:
            if self._unavailable is not None:
                return state | {"reasons": dict.fromkeys(_FIELDS, self._unavailable)}
            self._done.set()
            self._thread.join()
            # Only when nothing was sampled under load: by now the device may be idle already.
            if not any(self._samples.values()):
                self._sample()
            energy_j, energy_reason = self._energy_used(duration_s)
        state |= {name: _METRICS[name].summarise(values) if values else None for name, values in self._samples.items()}
        state["samples"] = max(map(len, self._samples.values()))
        state["energy_j"] = energy_j
        clocks = self._samples["sm_clock_mhz"]
        state["sm_clock_min_mhz"] = min(clocks) if clocks else None
        if state["throttle_bits"] is not None:
            state["throttle_bits"] = int(state["throttle_bits"])
            state["throttle_reason"] = throttle_reason(state["throttle_bits"])
        return state | {"reasons": self._reasons_of(state, energy_reason)}

    def _reasons_of(self, state: dict[str, Any], energy_reason: str | None) -> dict[str, str]:
        reasons = {name: reason for name, reason in self._reasons.items() if state[name] is None}
        if energy_reason is not None:
            reasons["energy_j"] = energy_reason
        if "sm_clock_mhz" in reasons:
            reasons["sm_clock_min_mhz"] = reasons["sm_clock_mhz"]
        if "throttle_bits" in reasons:
            reasons["throttle_reason"] = reasons["throttle_bits"]
        return reasons

    def _sample_until_done(self) -> None:
        while not self._done.wait(self._interval_s):
            self._sample()

    def _sample(self) -> None:
        for name, metric in _METRICS.items():
            handle = self._board if metric.on_board else self._handle
            value, reason = ask(self._read_metric, metric, handle)
            if reason is None:
                self._samples[name].append(value)
            else:
                self._reasons[name] = reason

    def _read_metric(self, metric: _Metric, handle: Any) -> float:
        return metric.read(getattr(self._nvml, metric.question)(handle, *metric.arguments))

    def _read_energy(self) -> Reading:
        return ask(lambda: self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))

    def _energy_used(self, duration_s: float) -> Reading:
        (before_mj, before_reason), (after_mj, after_reason) = self._energy, self._read_energy()
        if before_reason is not None or after_reason is not None:
            return None, before_reason or after_reason
        if after_mj <= before_mj:
            return None, f"the card's energy counter did not advance within {duration_s:.3f} s"
        return (after_mj - before_mj) / 1e3, None
