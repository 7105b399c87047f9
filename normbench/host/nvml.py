"""Reach NVIDIA's management library (NVML) and find in it the device that CUDA means. Nothing here raises: what fails has a reason."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Card", "Reading", "ask", "board_of", "find_handle", "opened", "uuid_of", "visible_uuids"]

Reading = tuple[Any, str | None]
"""A value and None, or None and the reason why there is no value."""


def ask(question: Callable[..., Any], *arguments: Any, source: str = "NVML") -> Reading:
    """Return the answer of one NVML function, or why there is none: a metric that is missing must not end a timing.

    `source` is who is asked, when it is not NVML.
    """
    try:
        answer = question(*arguments)
    except Exception as error:
        return None, f"{source}: {error}" if str(error) else f"{source}: {type(error).__name__}"
    return answer.decode() if isinstance(answer, bytes) else answer, None


@contextmanager
def opened(library: Any = None) -> Iterator[Reading]:
    """Give the started NVML module, or why it cannot be had (no driver, driver and library of different versions).

    `library` stands in for the module pynvml.
    """
    if library is None:
        try:
            library = importlib.import_module("pynvml")
        except ImportError as error:
            yield None, f"pynvml cannot be imported ({error}): pip install nvidia-ml-py"
            return
    _, reason = ask(library.nvmlInit)
    if reason is not None:
        yield None, reason
        return
    try:
        yield library, None
    finally:
        ask(library.nvmlShutdown)


def find_handle(library: Any, uuid: str) -> Reading:
    """Return the handle of a device by UUID, `GPU-...` or `MIG-...`.

    PyTorch gives the UUID of a MIG slice without saying that it is one, so a `GPU-` that does not exist is looked for as `MIG-`.
    """
    handle, reason = ask(library.nvmlDeviceGetHandleByUUID, uuid)
    if reason is not None and uuid.startswith("GPU-"):
        slice_, slice_reason = ask(library.nvmlDeviceGetHandleByUUID, uuid.replace("GPU-", "MIG-", 1))
        if slice_reason is None:
            return slice_, None
    return (handle, None) if reason is None else (None, f"device {uuid}: {reason}")


def board_of(library: Any, handle: Any) -> Any:
    """Return the handle of the card that a MIG slice lies on; the handle itself when it is no slice."""
    is_slice, reason = ask(library.nvmlDeviceIsMigDeviceHandle, handle)
    if reason is not None or not is_slice:
        return handle
    parent, reason = ask(library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle)
    return handle if reason is not None else parent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One figure: the NVML function, its further arguments, whom to ask, and how to get to the figure's unit."""

    function: str
    arguments: tuple[Any, ...] = ()
    on_board: bool = True
    convert: Callable[[Any], float] = float


# Clocks, temperature and slowdowns belong to the whole card, also when a MIG slice is measured. Power, energy and use do not: the card's
# figures would contain the neighbours' work.
_QUESTIONS = {
    "power_w": _Question(function="nvmlDeviceGetPowerUsage", on_board=False, convert=lambda milliwatts: milliwatts / 1e3),
    "energy_j": _Question(function="nvmlDeviceGetTotalEnergyConsumption", on_board=False, convert=lambda millijoules: millijoules / 1e3),
    "sm_clock_mhz": _Question(function="nvmlDeviceGetClockInfo", arguments=(1,)),
    "memory_clock_mhz": _Question(function="nvmlDeviceGetClockInfo", arguments=(2,)),
    "temperature_c": _Question(function="nvmlDeviceGetTemperature", arguments=(0,)),
    "utilisation_percent": _Question(function="nvmlDeviceGetUtilizationRates", on_board=False, convert=lambda rates: float(rates.gpu)),
    "throttle_bits": _Question(function="nvmlDeviceGetCurrentClocksThrottleReasons", convert=int),
}


class Card:
    """Ask one device, named by UUID (`GPU-...` or `MIG-...`), until it is closed; `reason` says why it cannot be asked at all.

    The UUID is PyTorch's, since NVML counts cards in another order than CUDA. `library` stands in for the module pynvml.
    """

    def __init__(self, uuid: str, *, library: Any = None) -> None:
        self.reason: str | None
        self._resources = ExitStack()
        self._nvml, self.reason = self._resources.enter_context(opened(library))
        if self.reason is None:
            self._handle, self.reason = find_handle(self._nvml, uuid)
        if self.reason is None:
            self._board = board_of(self._nvml, self._handle)

    def read(self, figure: str) -> Reading:
        """Return a figure by its name with unit: power_w, energy_j (since the driver was loaded), sm_clock_mhz, memory_clock_mhz,
        temperature_c, utilisation_percent or throttle_bits.
        """
        if self.reason is not None:
            return None, self.reason
        question = _QUESTIONS[figure]
        handle = self._board if question.on_board else self._handle
        return ask(lambda: question.convert(getattr(self._nvml, question.function)(handle, *question.arguments)))

    def close(self) -> None:
        """Let go of NVML, however often."""
        self._resources.close()


def uuid_of(device: Any) -> str:
    """Return the UUID of a torch device of type cuda, which starts CUDA."""
    import torch

    return f"GPU-{torch.cuda.get_device_properties(device).uuid}"


def visible_uuids(library: Any, environment: Mapping[str, str] = os.environ) -> Reading:
    """Return the UUIDs of cuda:0, cuda:1 and so on without starting CUDA, or why they cannot be known.

    CUDA_VISIBLE_DEVICES may hold indices, UUIDs (shortened, too) and MIG UUIDs; CUDA stops reading at the first entry that is none.
    An index counts in CUDA's order, which is NVML's (by PCI bus) only if CUDA_DEVICE_ORDER says so or all cards are alike.
    """
    count, reason = ask(library.nvmlDeviceGetCount)
    if reason is not None:
        return None, reason
    handles = [ask(library.nvmlDeviceGetHandleByIndex, number)[0] for number in range(count)]
    uuids = [ask(library.nvmlDeviceGetUUID, handle)[0] or "" for handle in handles]
    names = sorted({str(ask(library.nvmlDeviceGetName, handle)[0]) for handle in handles})
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    entries = [str(number) for number in range(count)] if listed is None else _valid_entries(listed, uuids)
    if len(names) > 1 and any(entry.isdigit() for entry in entries) and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return None, f"CUDA may order {', '.join(names)} differently: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or list UUIDs"
    return [_uuid_of(entry, uuids) for entry in entries], None


def _uuid_of(entry: str, uuids: list[str]) -> str:
    if entry.startswith("MIG-"):
        return entry
    return uuids[int(entry)] if entry.isdigit() else next(uuid for uuid in uuids if uuid.startswith(entry))


def _valid_entries(listed: str, uuids: list[str]) -> list[str]:
    """Return the entries of CUDA_VISIBLE_DEVICES up to the first that names no device."""
    entries = []
    for entry in map(str.strip, listed.split(",")):
        is_index = entry.isdigit() and int(entry) < len(uuids)
        is_card = entry.startswith("GPU-") and sum(uuid.startswith(entry) for uuid in uuids) == 1
        if not (is_index or is_card or entry.startswith("MIG-")):
            break
        entries.append(entry)
    return entries
