"""Count the energy that a device has used: a GPU by its own counter, a CPU by the counters of its packages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .nvml import Card, Reading, uuid_of

__all__ = ["POWERCAP", "EnergyCounter", "card_energy", "open_energy", "package_energy"]

POWERCAP = Path("/sys/class/powercap")
"""Where Linux shows the energy counters of Intel and AMD processors (RAPL; kernel documentation, power/powercap)."""


class EnergyCounter:
    """Read how much energy a device has used, whoever used it. Never raises, and may be read from several threads.

    `source` names the counter, None when there is none; `reason` says why the latest reading had no value, None when it had one.
    """

    def __init__(
        self,
        total_j: Callable[[], Reading],
        *,
        source: str | None = None,
        reason: str | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        """Count by `total_j`, which gives joules since whenever, and `close` what it reads."""
        self._total_j = total_j
        self._close = close
        self._lock = threading.Lock()
        self.source = source
        self.reason = reason

    def read(self) -> float | None:
        """Return joules since some moment before the first reading, so that differences are what was used; None comes with `reason`."""
        total_j, _ = self.reading()
        return None if total_j is None else float(total_j)

    def reading(self) -> Reading:
        """Return the same joules and None, or None and the reason."""
        with self._lock:
            total_j, self.reason = self._total_j()
            return total_j, self.reason

    def spent(self, before_j: float | None, within_s: float) -> Reading:
        """Return the joules since the reading `before_j`, taken `within_s` seconds ago, or why they are not known."""
        if before_j is None:
            return None, self.reason or "the energy counter could not be read at the start"
        after_j, reason = self.reading()
        if reason is not None:
            return None, reason
        # Counters are refreshed a few times a second at worst: no energy at all means that none was counted yet.
        if after_j <= before_j:
            return None, f"the energy counter did not advance within {within_s:.3f} s"
        return after_j - before_j, None

    def close(self) -> None:
        """Let go of what is read."""
        if self._close is not None:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open_energy(device: Any, *, powercap: Path = POWERCAP, library: Any = None) -> EnergyCounter:
    """Return the energy counter of a torch device: of the card for cuda, of all processor packages for cpu.

    Where there is none, its `source` is None and `reason` says why. `powercap` is where RAPL's counters lie, `library` stands in for
    pynvml.
    """
    if device.type == "cuda":
        card = Card(uuid_of(device), library=library)
        counter = card_energy(card, close=card.close)
    elif device.type == "cpu":
        counter = package_energy(powercap)
    else:
        return _no_energy(f"no energy counter is known of devices of type {device.type!r}")
    if counter.read() is None:
        counter.source = None
    return counter


def card_energy(card: Card, *, close: Callable[[], None] | None = None) -> EnergyCounter:
    """Return the counter of an NVIDIA card, or of a MIG slice where that has one: NVML's total energy since the driver was loaded."""
    return EnergyCounter(lambda: card.read("energy_j"), source="nvml total energy", reason=card.reason, close=close)


def package_energy(powercap: Path = POWERCAP) -> EnergyCounter:
    """Return the sum over all processor packages: cores, caches and memory controller, without the memory itself.

    The counters wrap around, on many processors after 262 kJ, which is 44 minutes at 100 W: read more often than that.
    Known only as a whole: with one package unreadable there is no reading.
    """
    # Other domains lie within a package (intel-rapl:0:0, its cores) or contain it (psys, the whole platform); the same counters by
    # another way (intel-rapl-mmio) would count twice.
    packages: list[_Package] = []
    for folder in sorted(powercap.glob("intel-rapl:*")):
        name, reason = _line(folder / "name")
        if reason is not None:
            return _no_energy(reason)
        if name.startswith("package"):
            packages.append(_Package(folder, name))
    if not packages:
        return _no_energy(
            f"{powercap} shows no processor package: virtual machines and containers rarely have its energy counters (RAPL); "
            "on Linux on the machine itself: sudo modprobe intel_rapl_msr"
        )

    def total_j() -> Reading:
        readings = [package.total_uj() for package in packages]
        reason = next((reason for _, reason in readings if reason is not None), None)
        return (None, reason) if reason is not None else (sum(total_uj for total_uj, _ in readings) / 1e6, None)

    return EnergyCounter(total_j, source=f"rapl {'+'.join(package.name for package in packages)}")


class _Package:
    """One package's counter of microjoules, unwrapped: it starts again at 0 beyond `max_energy_range_uj`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder
        self._latest_uj: int | None = None
        self._total_uj = 0

    def total_uj(self) -> Reading:
        """Return microjoules since the first reading."""
        now_uj, reason = _count(self._folder / "energy_uj")
        if reason is not None:
            return None, reason
        if self._latest_uj is not None:
            used_uj = now_uj - self._latest_uj
            if used_uj < 0:
                range_uj, reason = _count(self._folder / "max_energy_range_uj")
                if reason is not None:
                    return None, reason
                used_uj += range_uj
            self._total_uj += used_uj
        self._latest_uj = now_uj
        return self._total_uj, None


def _no_energy(reason: str) -> EnergyCounter:
    return EnergyCounter(lambda: (None, reason), reason=reason)


def _line(path: Path) -> Reading:
    try:
        return path.read_text().strip(), None
    except PermissionError:
        return None, (
            f"{path}: only root may read it (since CVE-2020-8694); to let everybody read it until the machine is started again: "
            f"sudo chmod a+r {path.parent.parent}/intel-rapl:*/{path.name}"
        )
    except (OSError, UnicodeDecodeError) as error:
        return None, f"{path}: {getattr(error, 'strerror', None) or error}"


def _count(path: Path) -> Reading:
    text, reason = _line(path)
    if reason is not None:
        return None, reason
    return (int(text), None) if text.isdecimal() else (None, f"{path}: {text!r} is not a count")
