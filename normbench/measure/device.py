"""What is known of the device that was asked for; a task, since only a task may touch CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import UsageError

__all__ = ["describe_device"]


def _peak_gbps(properties: Any) -> float | None:
    """Return the memory bandwidth by clock and bus width, two transfers a clock; None where this PyTorch does not tell them."""
    clock_khz, width_bits = getattr(properties, "memory_clock_rate", None), getattr(properties, "memory_bus_width", None)
    return 2 * clock_khz * 1e3 * width_bits / 8 / 1e9 if clock_khz and width_bits else None


def describe_device(device_name: str, emit: Callable[[Any], None]) -> None:
    """Emit what is known of a device, or raise UsageError when it cannot be used."""
    import torch

    try:
        device = torch.device(device_name)
    except RuntimeError:
        raise UsageError(f"device {device_name!r} is not a device name such as cpu, cuda or cuda:1") from None
    if device.type == "cpu":
        emit({"type": "cpu"})
        return
    if device.type != "cuda":
        raise UsageError(f"device {device_name!r} is of type {device.type!r}; normbench measures cpu and cuda")
    if not torch.cuda.is_available():
        raise UsageError(f"device {device_name!r} asked for, and PyTorch {torch.__version__} finds no CUDA device here; use cpu")
    if (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"device {device_name!r} asked for, and there are {torch.cuda.device_count()} CUDA devices, counted from 0")
    properties = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    emit(
        {
            "type": "cuda",
            "name": properties.name,
            "uuid": f"GPU-{properties.uuid}",
            "capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "l2_bytes": properties.L2_cache_size,
            "peak_gbps": _peak_gbps(properties),
            "memory_bytes": total,
            "free_bytes": free,
        }
    )
