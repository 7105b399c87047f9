"""Follow a device's vital signs while it works: clock, temperature, power, and on a GPU whether it slowed itself down."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Protocol

import psutil

from .energy import EnergyCounter
from .nvml import Card, Reading, ask, uuid_of
from .power import throttle_reason
from .threads import affinity
from .watch import INTERVAL_S, Seen, Watch

__all__ = ["MAX_MOMENTS", "CardGauges", "CpuGauges", "VitalSigns", "Vitals"]

MAX_MOMENTS = 600
"""A series is never longer, or the records of a run would be mostly this; a minute has all its moments."""
SHARE = 0.02
"""Reading may take so much of the time: psutil opens some hundred files on a machine of many cores, on one of those that work."""

_PROCESSOR_SENSORS = ("coretemp", "k10temp", "zenpower", "x86_pkg_temp", "cpu_thermal", "cpu-thermal")
"""The drivers, as psutil names them, that tell the temperature of a processor's package or cores: Intel, AMD, and others."""
_DIGITS = {"clock_mhz": 1, "temperature_c": 1, "power_w": 3}
"""The figures, and how many decimals of them mean anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalSigns:
    """Hold what was seen: by name one value per moment in `at_s`, None where there was none, as in `record.Sustained`."""

    at_s: tuple[float, ...]
    series: dict[str, tuple[float | None, ...]]
    throttled: str | None
    slowdowns: tuple[str | None, ...]
    reasons: dict[str, str]


class Gauges(Protocol):
    """Offer a device's gauges, and make of what they showed the series of all figures, and what slowed it down."""

    gauges: Mapping[str, Callable[[], Reading]]

    def series(self, seen: Seen) -> dict[str, list[Any]]: ...

    def throttled(self, seen: Seen) -> Reading: ...

    def slowdowns(self, seen: Seen) -> tuple[str | None, ...]: ...

    def close(self) -> None: ...


class CardGauges:
    """Read a GPU by NVML: clock of the multiprocessors, temperature and slowdowns of the card, power of the device.

    On cards since Ampere, A100 excepted, power is the mean over the last second (NVML reference, nvmlDeviceGetPowerUsage).
    """

    def __init__(self, uuid: str, *, library: Any = None) -> None:
        self._card = Card(uuid, library=library)
        self._bits = 0
        figures = {"clock_mhz": "sm_clock_mhz", "temperature_c": "temperature_c", "power_w": "power_w"}
        self.gauges: Mapping[str, Callable[[], Reading]] = {
            **{name: partial(self._card.read, figure) for name, figure in figures.items()},
            "throttled": self._slowdown_bits,
        }

    def _slowdown_bits(self) -> Reading:
        bits, reason = self._card.read("throttle_bits")
        if reason is None:
            # Kept beside the series: the moment that saw one may be dropped from a long one.
            self._bits |= bits
        return bits, reason

    def series(self, seen: Seen) -> dict[str, list[Any]]:
        """Return the readings as they are."""
        return {name: seen.values[name] for name in _DIGITS}

    def throttled(self, seen: Seen) -> Reading:
        """Return why the card slowed itself down, None for no slowdown, or the reason why that is not known."""
        return (throttle_reason(self._bits), None) if seen.read("throttled") else (None, seen.reasons.get("throttled"))

    def slowdowns(self, seen: Seen) -> tuple[str | None, ...]:
        """Return why the card was slow at each moment, None for no slowdown or where it did not say; nothing where it never says."""
        if not seen.read("throttled"):
            return ()
        return tuple(None if bits is None else throttle_reason(bits) for bits in seen.values["throttled"])

    def close(self) -> None:
        self._card.close()


class CpuGauges:
    """Read a processor: clock and temperature by psutil, power by how its energy counter advances from moment to moment.

    The clock is the median of the cores this process may run on; virtual machines often show the nominal one, whatever the real one
    is. The temperature is the highest of package and cores. Slowdowns stay unknown: Linux counts those by heat, for Intel alone, and
    none by a power limit, and a clock that falls may be the turbo's rule for more cores or wider instructions as well. The clock's
    series shows them all.
    """

    def __init__(self, energy: EnergyCounter) -> None:
        self._cores = affinity()
        self.gauges: Mapping[str, Callable[[], Reading]] = {
            "clock_mhz": self._clock_mhz,
            "temperature_c": _temperature_c,
            "power_w": energy.reading,
        }
        self._before_j = energy.read()

    def _clock_mhz(self) -> Reading:
        clocks, reason = ask(lambda: psutil.cpu_freq(percpu=True), source="psutil")
        if reason is not None:
            return None, reason
        # Some systems tell one clock for all cores.
        ours = [clocks[core] for core in self._cores or () if core < len(clocks)] or clocks
        told = [clock.current for clock in ours if clock.current > 0]
        return (float(median(told)), None) if told else (None, "the system tells no clock of its cores")

    def series(self, seen: Seen) -> dict[str, list[Any]]:
        """Return the readings, energy as the mean power since the moment before."""
        power_w: list[float | None] = []
        before_s, before_j = 0.0, self._before_j
        for at_s, total_j in zip(seen.at_s, seen.values["power_w"], strict=True):
            power_w.append(None if before_j is None or total_j is None else (total_j - before_j) / (at_s - before_s))
            before_s, before_j = at_s, total_j
        return {name: seen.values[name] for name in _DIGITS} | {"power_w": power_w}

    def throttled(self, seen: Seen) -> Reading:
        """Return nothing; the class says why."""
        return None, None

    def slowdowns(self, seen: Seen) -> tuple[str | None, ...]:
        """Return nothing; the class says why."""
        return ()

    def close(self) -> None:
        """Leave the energy counter to whoever opened it."""


def _temperature_c() -> Reading:
    if not hasattr(psutil, "sensors_temperatures"):
        return None, f"psutil reads no temperatures on {platform.system()}"
    sensors, reason = ask(psutil.sensors_temperatures, source="psutil")
    if reason is not None:
        return None, reason
    told = [sensor.current for driver in _PROCESSOR_SENSORS for sensor in sensors.get(driver, ()) if sensor.current is not None]
    others = f" (there are {', '.join(sorted(sensors))})" if sensors else ""
    return (float(max(told)), None) if told else (None, f"no sensor of the processor is visible here{others}; virtual machines have none")


class Vitals:
    """Follow one device from `start` to `stop`. Never raises.

    `made` is read at each moment, the calls so far and when the last ended, and becomes the series `calls` and `ended_s`. The interval
    grows with the time that it takes, so that there are at most MAX_MOMENTS.
    """

    def __init__(
        self, gauges: Gauges, made: Callable[[], tuple[int, float]], *, interval_s: float = INTERVAL_S, limit: int = MAX_MOMENTS
    ) -> None:
        self._gauges = gauges
        counted: dict[str, Callable[[], Reading]] = {"calls": lambda: (made(), None)}
        self._watch = Watch(counted | dict(gauges.gauges), interval_s=interval_s, limit=limit, share=SHARE)

    @classmethod
    def of(cls, device: Any, energy: EnergyCounter, made: Callable[[], tuple[int, float]]) -> Vitals:
        """Return the vital signs of a torch device of type cuda or cpu; `energy` is its counter."""
        return cls(CardGauges(uuid_of(device)) if device.type == "cuda" else CpuGauges(energy), made)

    def start(self) -> None:
        self._watch.start()

    def stop(self) -> VitalSigns:
        """End and return what was seen; a figure that was never there is left out and has its reason."""
        seen = self._watch.stop()
        self._gauges.close()
        series: dict[str, tuple[float | None, ...]] = {
            "calls": tuple(float(calls) for calls, _ in seen.values["calls"]),
            "ended_s": tuple(round(end_s, 6) for _, end_s in seen.values["calls"]),
        }
        reasons = {}
        for name, values in self._gauges.series(seen).items():
            if any(value is not None for value in values):
                series[name] = tuple(None if value is None else round(float(value), _DIGITS[name]) for value in values)
            else:
                reasons[name] = seen.reasons.get(name, "there was only one moment to read it at")
        throttled, reason = self._gauges.throttled(seen)
        if reason is not None:
            reasons["throttled"] = reason
        return VitalSigns(
            at_s=tuple(round(at_s, 4) for at_s in seen.at_s),
            series=series,
            throttled=throttled,
            slowdowns=self._gauges.slowdowns(seen),
            reasons=reasons,
        )
