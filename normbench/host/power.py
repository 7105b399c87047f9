"""Watch one GPU while it is measured: clocks, power, energy, temperature, and whether it slowed itself down."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import fmean, median
from typing import Any

from .energy import EnergyCounter, card_energy
from .nvml import Card
from .watch import INTERVAL_S, Watch

__all__ = ["PowerMeter", "throttle_reason"]

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


def _union(bits: list[int]) -> int:
    total = 0
    for one in bits:
        total |= one
    return total


_SUMMARIES: dict[str, Callable[[list[Any]], float]] = {
    "power_w": fmean,
    "sm_clock_mhz": median,
    "memory_clock_mhz": median,
    "temperature_c": max,
    "utilisation_percent": fmean,
    "throttle_bits": _union,
}
"""What is watched, and what one number of many samples is."""
_FIELDS = (*_SUMMARIES, "sm_clock_min_mhz", "energy_j", "throttle_reason")


class PowerMeter:
    """Sample one device, named by UUID as in `nvml.Card`, from `start` to `stop`. Never raises.

    `library` stands in for the module pynvml.
    """

    def __init__(self, uuid: str, *, library: Any = None, interval_s: float = INTERVAL_S) -> None:
        self._uuid = uuid
        self._library = library
        self._interval_s = interval_s

    def start(self) -> None:
        """Open NVML, read the energy counter and begin to sample in a thread."""
        self._card = Card(self._uuid, library=self._library)
        self._started_s = time.perf_counter()
        self._watch: Watch | None = None
        if self._card.reason is None:
            self._energy: EnergyCounter = card_energy(self._card)
            self._before_j = self._energy.read()
            self._watch = Watch({name: partial(self._card.read, name) for name in _SUMMARIES}, interval_s=self._interval_s)
            self._watch.start()

    def stop(self) -> dict[str, Any]:
        """End sampling and return plain JSON values; what could not be read is null and has its reason in `reasons`.

        power_w and utilisation_percent are means, clocks medians, temperature_c the highest, throttle_bits every bit seen;
        energy_j is the difference of the card's counter; throttle_reason is null when nothing slowed the device down. Power and energy
        include whatever else the device did.
        """
        duration_s = time.perf_counter() - self._started_s
        state: dict[str, Any] = {"uuid": self._uuid, "duration_s": duration_s, "samples": 0} | dict.fromkeys(_FIELDS)
        if self._watch is None:
            self._card.close()
            return state | {"reasons": dict.fromkeys(_FIELDS, self._card.reason)}
        seen = self._watch.stop()
        state["energy_j"], energy_reason = self._energy.spent(self._before_j, duration_s)
        self._card.close()
        samples = {name: seen.read(name) for name in _SUMMARIES}
        state |= {name: _SUMMARIES[name](values) for name, values in samples.items() if values}
        state["samples"] = max(map(len, samples.values()))
        state["sm_clock_min_mhz"] = min(samples["sm_clock_mhz"], default=None)
        if state["throttle_bits"] is not None:
            state["throttle_reason"] = throttle_reason(state["throttle_bits"])
        reasons = {name: reason for name, reason in seen.reasons.items() if state[name] is None}
        if energy_reason is not None:
            reasons["energy_j"] = energy_reason
        if "sm_clock_mhz" in reasons:
            reasons["sm_clock_min_mhz"] = reasons["sm_clock_mhz"]
        if "throttle_bits" in reasons:
            reasons["throttle_reason"] = reasons["throttle_bits"]
        return state | {"reasons": reasons}
