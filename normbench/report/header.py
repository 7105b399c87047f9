"""What ran, on what and how: the lines between the title and the answer. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..quantities.units import DASH, bytes_text, join_words
from ..results.derived import Result
from ..storage.stored_run import Machine, Run
from ..text.markdown import escape
from .tables import describe_conditions

__all__ = ["facts", "state_line"]

_WIDEST = ("amx_tile", "avx512f", "avx2", "avx", "sse4_2", "sve2", "sve", "asimd")
"""CPU flags from the widest vectors to the narrowest."""


def state_line(run: Run) -> str:
    """Return whether the run is complete, and if not, what is missing."""
    if not run.records:
        return f"**Empty run**: none of {run.info.planned} planned records; it is no baseline and passes no gate."
    count = f"{run.info.planned - run.missing} of {run.info.planned} planned records"
    if run.is_complete:
        return f"Complete: {count}."
    missing = f"{run.missing} are missing" if run.missing else "none is missing, but the run was not finished"
    return f"**Incomplete run**: {count}; {missing}. It can be resumed; it is no baseline and passes no gate."


def facts(run: Run, results: Sequence[Result]) -> list[tuple[str, str]]:
    """Return label and text of each thing to know about where and how the run was taken."""
    info = run.info
    measured = [result for result in results if result.time]
    conditions = dict.fromkeys(describe_conditions(result.record.conditions) for result in results)
    lines = [
        *([] if info.machines else _machine_facts(info.machine, info.versions)),
        *((f"Machine {name}", _in_one_line(one)) for name, one in info.machines.items()),
        ("Conditions", "; ".join(conditions)),
        ("Method", _method(measured)),
        ("Taken", f"{info.created_at}, seed {info.seed}, commit {_commit(info.git_commit)}"),
    ]
    return [(label, escape(text, 2000)) for label, text in lines if text]


def _machine_facts(machine: Mapping[str, Any], versions: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("Processor", _processor(machine)),
        ("Memory", _memory(machine)),
        ("GPU", _gpu(machine)),
        ("System", _system(machine)),
        ("Versions", ", ".join(f"{name} {value}" for name, value in versions.items() if value)),
    ]


def _in_one_line(machine: Machine) -> str:
    """Return what is known of one of several machines."""
    return "; ".join(text for _, text in _machine_facts(machine.machine, machine.versions) if text)


def _method(measured: Sequence[Result]) -> str:
    if not measured:
        return ""
    blocks = [result.record.measurement.blocks for result in measured if result.record.measurement]
    processes = _range([len(taken) for taken in blocks])
    repetitions = _range([len(block.samples_s) for taken in blocks for block in taken])
    turns = _range([len(samples) for taken in blocks for block in taken for samples in block.samples_s])
    inner = _range([block.inner for taken in blocks for block in taken])
    timers = join_words(sorted({result.record.measurement.timer for result in measured if result.record.measurement}))
    stops = Counter(result.record.measurement.stop.value for result in measured if result.record.measurement)
    stopped = join_words(f"{reason} {count}" for reason, count in stops.most_common())
    return (
        f"per provider {processes} processes x {repetitions} repetitions (fresh tensors each) x {turns} turns of {inner} calls, "
        f"taken in turns with the others of its case in random order; clock {timers}; stopped by: {stopped}"
    )


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}{DASH}{high}"


def _processor(machine: Mapping[str, Any]) -> str:
    if not machine.get("cpu_model"):
        return ""
    parts = [str(machine["cpu_model"])]
    if machine.get("cores"):
        parts.append(f"{machine['cores']} of {machine.get('cpus') or '?'} CPUs usable")
    if machine.get("cpu_quota"):
        parts.append(f"quota {machine['cpu_quota']} CPUs")
    isa = machine.get("torch_cpu_capability") or next((flag for flag in _WIDEST if flag in (machine.get("cpu_isa") or ())), None)
    if isa:
        parts.append(f"widest vectors {isa}")
    parts += [f"{name.upper()} {bytes_text(machine[f'{name}_bytes'])}" for name in ("l2", "l3") if machine.get(f"{name}_bytes")]
    if machine.get("governor"):
        parts.append(f"governor {machine['governor']}")
    return ", ".join(parts)


def _memory(machine: Mapping[str, Any]) -> str:
    parts = []
    if machine.get("memory_gib"):
        parts.append(f"{machine['memory_gib']} GiB")
    if machine.get("memory_limit_bytes"):
        parts.append(f"limited to {bytes_text(machine['memory_limit_bytes'])}")
    if machine.get("transparent_hugepages"):
        parts.append(f"transparent huge pages {machine['transparent_hugepages']}")
    return ", ".join(parts)


def _gpu(machine: Mapping[str, Any]) -> str:
    """Return the GPU measured on; without one, those that are there."""
    device = machine.get("device") or {}
    cards = [device] if device.get("type") == "cuda" else machine.get("gpus") or []
    texts = []
    for card in cards:
        parts = [str(card.get("name") or "unnamed")]
        if card.get("memory_bytes"):
            parts.append(bytes_text(card["memory_bytes"]))
        if card.get("l2_bytes"):
            parts.append(f"L2 {bytes_text(card['l2_bytes'])}")
        if card.get("power_limit_w"):
            parts.append(f"power limit {card['power_limit_w']:g} W")
        texts.append(", ".join(parts))
    if texts and machine.get("nvidia_driver"):
        texts.append(f"driver {machine['nvidia_driver']}")
    return "; ".join(texts)


def _system(machine: Mapping[str, Any]) -> str:
    names = [machine.get(name) for name in ("os", "kernel", "libc", "compiler", "system")]
    container = [f"in {machine['container']}"] if machine.get("container") else []
    return ", ".join([str(name) for name in names if name] + container)


def _commit(commit: str) -> str:
    """Return the first 12 digits of a commit, and whether files were changed since."""
    digits, dash, changed = commit.partition("-")
    return digits[:12] + dash + changed
