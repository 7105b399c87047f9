"""Describe the machine a run is taken on, and name it by what does not change from minute to minute. Imports no torch."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from .cache import cache_bytes
from .cgroup import cpu_quota, memory_headroom_bytes, memory_limit_bytes
from .nvml import Reading, ask, opened, visible_uuids
from .threads import affinity, available_cores

__all__ = ["available_memory_bytes", "git_commit", "machine_identity", "machine_record", "package_versions", "versions_of"]

_PACKAGES = (
    *("normbench", "torch", "triton", "numpy", "pytest-benchmark"),
    *("apex", "helion", "keras", "liger-kernel", "onnxruntime", "onnxruntime-gpu", "quack-kernels", "transformer-engine", "transformers"),
)
"""Packages whose version can change a number; those that are not installed are null."""

_ISA_FLAGS = (
    *("sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_bf16", "amx_int8", "asimd", "asimdhp", "sve", "sve2", "bf16", "i8mm"),
)
"""CPU flags, x86 and Arm, that decide which code PyTorch, its compiler or a kernel library picks."""

_IDENTITY = (
    *("cpu_model", "cpu_isa", "cpus", "cores", "cpu_quota", "l2_bytes", "l3_bytes", "governor", "memory_gib", "memory_limit_bytes"),
    *("transparent_hugepages", "kernel", "system", "nvidia_driver", "gpus"),
)
_GPU_IDENTITY = ("uuid", "name", "memory_bytes", "power_limit_w")

_COMMAND_TIMEOUT_S = 10


def machine_record(*, root: Path = Path("/"), library: Any = None) -> dict[str, Any]:
    """Return what is known of this machine as plain JSON values; each null has its reason in `reasons`.

    `gpus` are all cards in NVML's order, `cuda_devices` the UUIDs of those that CUDA counts as 0, 1 and so on. A figure that only
    torch knows (`torch_cpu_capability`, a GPU's `l2_bytes`) is there once torch, or CUDA, has been started by somebody else.
    `root` is where /proc, /sys and /etc lie, `library` stands in for pynvml.
    """
    affinity_mask = affinity()
    caches = cache_bytes(root)
    cpu_flags, cpu_model = _cpu(root)
    with opened(library) as (nvml, nvml_reason):
        gpus: Reading = (None, nvml_reason) if nvml_reason else _gpus(nvml)
        driver: Reading = (None, nvml_reason) if nvml_reason else ask(nvml.nvmlSystemGetDriverVersion)
        devices: Reading = (None, nvml_reason) if nvml_reason else visible_uuids(nvml)
        cuda: Reading = (None, nvml_reason) if nvml_reason else ask(nvml.nvmlSystemGetCudaDriverVersion)
    readings: dict[str, Reading] = {
        "cpu_model": cpu_model,
        "cpu_isa": cpu_flags,
        "torch_cpu_capability": _torch_cpu_capability(),
        "cpus": _or_reason(os.cpu_count(), "the system does not tell"),
        "affinity": _or_reason(affinity_mask, "the system has no affinity masks"),
        "cpu_quota": _or_reason(cpu_quota(root), "no CPU quota is set"),
        "cores": (available_cores(root), None),
        "governor": _file(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "l2_bytes": _or_reason(caches.get(2), "sysfs shows no level 2 cache"),
        "l3_bytes": _or_reason(caches.get(3), "sysfs shows no level 3 cache"),
        "memory_gib": (round(psutil.virtual_memory().total / 2**30), None),
        "memory_limit_bytes": _or_reason(memory_limit_bytes(root), "no memory limit is set"),
        "transparent_hugepages": _transparent_hugepages(root),
        "kernel": (f"{platform.system()} {platform.release()}", None),
        "os": _os_name(root),
        "libc": _or_reason(" ".join(platform.libc_ver()).strip(), "not a C library that Python knows"),
        "system": _system(root),
        "container": _or_reason(_container(root), "no sign of a container"),
        "compiler": _compiler(),
        "nvidia_driver": driver,
        "cuda_driver": (f"{cuda[0] // 1000}.{cuda[0] % 1000 // 10}", None) if cuda[1] is None else cuda,
        "gpus": gpus,
        "cuda_devices": devices,
    }
    record: dict[str, Any] = {name: value for name, (value, _) in readings.items()}
    reasons = {name: reason for name, (_, reason) in readings.items() if reason is not None}
    return record | {"reasons": reasons}


def machine_identity(record: Mapping[str, Any]) -> str:
    """Return 12 hex digits that two records share if they come from machines whose timings may be compared.

    Made of model, counts, sizes, limits and settings. Neither clocks, free memory nor package versions are part of it.
    """
    stable = {name: record.get(name) for name in _IDENTITY}
    if stable["gpus"]:
        stable["gpus"] = [{name: gpu.get(name) for name in _GPU_IDENTITY} for gpu in stable["gpus"]]
    return hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()[:12]


def package_versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that matter; null for one not installed."""
    return {"python": platform.python_version(), **versions_of(_PACKAGES)}


def versions_of(packages: Iterable[str]) -> dict[str, str | None]:
    """Return the versions of packages from their metadata; null for one not installed."""
    versions: dict[str, str | None] = {}
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def available_memory_bytes(root: Path = Path("/")) -> int:
    """Return how much memory can still be taken without swapping or being killed: the system's, capped by the cgroup's."""
    available = int(psutil.virtual_memory().available)
    headroom = memory_headroom_bytes(root)
    return available if headroom is None else min(available, headroom)


def git_commit(path: Path) -> str:
    """Return the commit that `path` is checked out at, with `-dirty` for uncommitted changes of tracked files, or `unknown`."""
    if not path.is_dir():
        path = path.parent
    commit, reason = _run(["git", "-C", str(path), "rev-parse", "HEAD"])
    if reason is not None:
        return "unknown"
    # An installed copy may lie inside a repository that has nothing to do with it.
    _, untracked = _run(["git", "-C", str(path), "ls-files", "--error-unmatch", "."])
    if untracked is not None:
        return "unknown"
    changes, reason = _run(["git", "-C", str(path), "status", "--porcelain", "--untracked-files=no"])
    return f"{commit}-dirty" if changes or reason else str(commit)


def _or_reason(value: Any, reason: str) -> Reading:
    return (value, None) if value else (None, reason)


def _run(command: list[str]) -> Reading:
    """Return what a command prints, or why it did not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"{command[0]}: {error}"
    if done.returncode != 0:
        return None, f"{command[0]}: exit status {done.returncode}"
    return done.stdout.strip(), None


def _file(path: Path) -> Reading:
    try:
        return path.read_text().strip(), None
    except OSError as error:
        return None, f"{path}: {error.strerror}"


def _cpu(root: Path) -> tuple[Reading, Reading]:
    """Return the flags that matter and the model's name, from /proc/cpuinfo."""
    text, reason = _file(root / "proc/cpuinfo")
    if reason is not None:
        model = platform.processor()
        return (None, reason), _or_reason(model, reason)
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    # Arm names no model, only numbers for who made it and which part it is.
    part = " ".join(f"{name} {fields[name]}" for name in ("CPU implementer", "CPU part") if name in fields)
    isa = [flag for flag in _ISA_FLAGS if flag in flags]
    return _or_reason(isa, "/proc/cpuinfo has no flags"), _or_reason(fields.get("model name") or part, "/proc/cpuinfo names no model")


def _torch_cpu_capability() -> Reading:
    torch = sys.modules.get("torch")
    return (None, "torch is not loaded") if torch is None else ask(torch.backends.cpu.get_cpu_capability)


def _transparent_hugepages(root: Path) -> Reading:
    """Return the setting in force, which the kernel puts in brackets: `always [madvise] never`."""
    text, reason = _file(root / "sys/kernel/mm/transparent_hugepage/enabled")
    return (None, reason) if reason else (text.partition("[")[2].partition("]")[0], None)


def _os_name(root: Path) -> Reading:
    text, reason = _file(root / "etc/os-release")
    if reason is not None:
        return platform.platform(), None
    names = [line.partition("=")[2].strip('"') for line in text.splitlines() if line.startswith("PRETTY_NAME=")]
    return _or_reason(names[0] if names else None, "/etc/os-release has no PRETTY_NAME")


def _system(root: Path) -> Reading:
    """Return vendor and product as the firmware names them, on clouds the instance type."""
    names = [_file(root / "sys/class/dmi/id" / name)[0] for name in ("sys_vendor", "product_name")]
    return _or_reason(" ".join(name for name in names if name), "the firmware names no product")


def _container(root: Path) -> str | None:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    return "wsl" if "microsoft" in platform.release().lower() else None


def _compiler() -> Reading:
    """Return the first line of the C++ compiler's version: torch.compile builds its CPU kernels with it."""
    text, reason = _run([os.environ.get("CXX", "c++"), "--version"])
    return (None, reason) if reason else (text.partition("\n")[0], None)


def _gpus(nvml: Any) -> Reading:
    count, reason = ask(nvml.nvmlDeviceGetCount)
    if reason is not None:
        return None, reason
    return [_gpu(nvml, index) for index in range(count)], None


def _gpu(nvml: Any, index: int) -> dict[str, Any]:
    """Describe one card; `reasons` inside it belongs to its own nulls. The index is NVML's, which is not CUDA's."""
    handle, reason = ask(nvml.nvmlDeviceGetHandleByIndex, index)
    if reason is not None:
        return {"nvml_index": index, "uuid": None, "reasons": {"uuid": reason}}
    uuid = ask(nvml.nvmlDeviceGetUUID, handle)
    readings: dict[str, Reading] = {
        "uuid": uuid,
        "name": ask(nvml.nvmlDeviceGetName, handle),
        "memory_bytes": ask(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
        "power_limit_w": ask(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3),
        "max_sm_clock_mhz": ask(nvml.nvmlDeviceGetMaxClockInfo, handle, 1),
        "max_memory_clock_mhz": ask(nvml.nvmlDeviceGetMaxClockInfo, handle, 2),
        "mig": ask(lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0])),
        "l2_bytes": _gpu_l2_bytes(str(uuid[0])),
    }
    values: dict[str, Any] = {name: value for name, (value, _) in readings.items()}
    reasons = {name: reason for name, (_, reason) in readings.items() if reason is not None}
    return {"nvml_index": index} | values | {"reasons": reasons}


def _gpu_l2_bytes(uuid: str) -> Reading:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None, "CUDA is not started"
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        if f"GPU-{properties.uuid}" == uuid:
            return int(properties.L2_cache_size), None
    return None, "the card is not visible to CUDA"
