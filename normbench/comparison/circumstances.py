"""What two runs, and two records, must have in common to be compared; where they differ, the field is named."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from ..cases.case import Tier
from ..cases.conditions import Conditions
from ..cases.metric import Metric
from ..errors import UsageError
from ..host.machine import machine_identity
from ..quantities.units import join_words
from ..records.record import Record
from ..storage.stored_run import Run, RunInfo

__all__ = ["MACHINE", "Discrepancy", "record_discrepancies", "refuse_difference", "run_discrepancies", "run_fields"]

MACHINE = "machine"
"""Stands for every field of the machine at once."""

_SOFTWARE = ("torch_cpu_capability", "libc", "compiler", "cuda_driver")
"""Fields of a machine that are not its identity and still decide which code runs: vector width, allocator, code generation."""
_MOODS = ("free_bytes",)
"""What is different on one device from one minute to the next."""
_PRECISION = (
    *("budget_s", "target_half_width", "floor_blocks", "min_blocks", "max_blocks", "max_repetitions", "max_turns", "timeout_s", "seed"),
    *("sustain_s",),
)
"""Parts of a plan that say how sure to become, or what is done after the samples: intervals tell. What is left says what a sample is."""
_OUTCOMES = ("compile_cache",)
"""Settings of a record that say what happened before the clock was started, not what was asked for."""

RECORD_FIELDS = (*Conditions.__struct_fields__, "metric", "timer", "settings", "definition", "seed", "schema")
_LONGEST = 60
"""Characters of a value that a message shows."""


class Discrepancy(msgspec.Struct, frozen=True, kw_only=True):
    """Say that two runs, or two records, differ in a field, with both values as text."""

    field: str
    before: str
    after: str

    @property
    def text(self) -> str:
        return f"{self.field} {self.before} against {self.after}"


def run_fields(run: Run) -> set[str]:
    """Return the names of all fields in which this run may differ from another."""
    info = run.info
    return {MACHINE, *RECORD_FIELDS, *info.machine, *info.versions, *_plan(info)}


def run_discrepancies(before: RunInfo, after: RunInfo) -> list[Discrepancy]:
    """Return what keeps two runs from being compared as a whole: another machine, device, version, plan or schema.

    A version, or software of the machine, that only one run knows is no difference: what it belongs to is in that run alone.
    """
    sides = (before, after)
    found = [_differing("schema", *(info.schema for info in sides))]
    names = dict.fromkeys([*before.machine, *after.machine])
    found += [_differing(name, *(info.machine.get(name) for info in sides)) for name in names if _is_another_machine(name, before, after)]
    found += [_differing("device", *(_lasting(info.machine.get("device")) for info in sides))]
    for kind in (lambda info: {name: info.machine.get(name) for name in _SOFTWARE}, lambda info: info.versions):
        found += [_differing(name, kind(before)[name], value) for name, value in _known(kind(before), kind(after)).items()]
    plans = [_plan(info) for info in sides]
    found += [_differing(name, *(plan.get(name) for plan in plans)) for name in dict.fromkeys([*plans[0], *plans[1]])]
    return [one for one in found if one is not None]


def record_discrepancies(before: Record, after: Record) -> list[Discrepancy]:
    """Return what keeps two records of one case and provider from being compared: conditions, metric, timer, settings, definition,
    schema.

    The seed matters where it decides what is done, as in a whole model or under load; a norm takes as long for any values.
    """
    reads: dict[str, Callable[[Record], Any]] = {
        **{name: lambda one, name=name: getattr(one.conditions, name) for name in Conditions.__struct_fields__},  # type: ignore[misc]
        "metric": lambda one: _metric_text(one.metric),
        "timer": lambda one: one.measurement.timer if one.measurement is not None else None,
        "settings": lambda one: {name: value for name, value in one.settings.items() if name not in _OUTCOMES},
        "definition": lambda one: one.departure.definition.value if one.departure is not None else "the norm's own",
        "seed": lambda one: one.seed if one.case.tier is not Tier.OP else None,
        "schema": lambda one: one.schema,
    }
    if before.measurement is None or after.measurement is None:
        # What was not measured is judged by nothing, has no timer and may not have got to its settings.
        reads = {name: read for name, read in reads.items() if name not in ("metric", "timer", "settings", "definition")}
    found = [_differing(name, read(before), read(after)) for name, read in reads.items()]
    return [one for one in found if one is not None]


def refuse_difference(before: Run, after: Run, across: Collection[str]) -> list[Discrepancy]:
    """Return the differences that `across` allows. Raises UsageError that names every other one, or a word that is no field."""
    known = run_fields(before) | run_fields(after)
    for word in across:
        if word not in known:
            raise UsageError(f"--across {word!r} is no field of these runs; fields are {', '.join(sorted(known))}")
    for info in (before.info, after.info):
        if info.machines:
            raise UsageError(
                f"run {info.id} was taken on more machines than its own ({', '.join(info.machines)}), and one case is not compared with "
                "another machine's: compare the runs that were merged"
            )
    found = run_discrepancies(before.info, after.info)
    machine = {*before.info.machine, *after.info.machine}
    refused = [one for one in found if one.field not in across and not (MACHINE in across and one.field in machine)]
    if refused:
        raise UsageError(
            f"runs {before.info.id} and {after.info.id} are not compared: {'; '.join(one.text for one in refused)}. "
            f"If this is the difference to be studied, allow it with --across {','.join(one.field for one in refused)}"
        )
    return found


def _is_another_machine(name: str, before: RunInfo, after: RunInfo) -> bool:
    """Say whether a field belongs to the identity of a machine, and differs: as the identity of a machine of which no more is known."""
    return machine_identity({name: before.machine.get(name)}) != machine_identity({name: after.machine.get(name)})


def _metric_text(metric: Metric) -> str:
    """Return all that a metric is, the tokens of a call included: another number of them makes another rate of the same time."""
    return f"{metric.name} ({metric.unit}, {metric.better.value} is better, {metric.per_call} per call)"


def _lasting(device: Any) -> Any:
    return {name: value for name, value in device.items() if name not in _MOODS} if isinstance(device, dict) else device


def _plan(info: RunInfo) -> dict[str, Any]:
    plan = info.settings.get("plan")
    return {name: value for name, value in plan.items() if name not in _PRECISION} if isinstance(plan, dict) else {}


def _known(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return after's values of the names that both know."""
    return {name: value for name, value in after.items() if value is not None and before.get(name) is not None}


def _differing(field: str, before: Any, after: Any) -> Discrepancy | None:
    """Return how two values of a field differ, or None where they do not; of lists and mappings only the parts that differ."""
    if before == after:
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
        return Discrepancy(field=field, before=_settings_text(before, names), after=_settings_text(after, names))
    if isinstance(before, list) and isinstance(after, list):
        only = [[value for value in mine if value not in other] for mine, other in ((before, after), (after, before))]
        if any(only):
            return Discrepancy(field=field, before=_list_text(only[0]), after=_list_text(only[1]))
    return Discrepancy(field=field, before=_text(before), after=_text(after))


def _settings_text(values: Mapping[str, Any], names: Sequence[str]) -> str:
    return _text(join_words(f"{name} {_text(values.get(name))}" for name in names))


def _list_text(values: Sequence[Any]) -> str:
    return "without that" if not values else f"with {_text(join_words(_text(value) for value in values))}"


def _text(value: Any) -> str:
    line = "none" if value is None else " ".join(str(value).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
