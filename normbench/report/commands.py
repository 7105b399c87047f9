"""The commands that make a run, or one table of it, again. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from ..cases.case import Norm, Pass, Tier
from ..cases.conditions import Conditions
from ..cases.model_case import ModelCase
from ..cases.shape import shape_text
from ..cases.throughput_case import ThroughputCase
from ..records.record import Role
from ..results.derived import Result
from ..storage.stored_run import RunInfo
from ..text.choices import DEFAULTS, Choices, words_of
from .companies import Company
from .tables import ScopeResults

__all__ = ["network_command", "run_command", "scope_command", "throughput_command"]


def run_command(info: RunInfo) -> str:
    """Return the command that made the run, its program without the path it was installed under."""
    if not info.command:
        return ""
    return shlex.join([PurePath(info.command[0]).name, *info.command[1:]])


def scope_command(info: RunInfo, grid: ScopeResults) -> str:
    """Return the command that measures one table again: its shapes and providers, under its conditions."""
    scope = grid.scope
    if scope.options:
        chosen = {"case": _list(result.record.case_id for shape in grid.shapes for result in grid.row(shape)[:1])}
    else:
        chosen = {"grid": _list(map(shape_text, grid.shapes)), "norm": scope.norm, "pass_": scope.pass_.value, "dtype": scope.dtype.value}
    return _command(info, scope.conditions, grid.providers, chosen)


def network_command(info: RunInfo, results: Sequence[Result]) -> str:
    """Return the command that measures one network of the model tier again: the passes, norms and providers of its results."""
    record = results[0].record
    assert isinstance(record.case, ModelCase), record.key
    # A control has a norm that nobody may have asked for: all arms of a network share it.
    arms = [one.record for one in results if one.record.role is Role.PROVIDER]
    chosen = {
        "tier": Tier.MODEL.value,
        "network": record.case.network,
        "preset": record.case.preset,
        "norm": _list(norm.value for norm in Norm if any(arm.case.norm is norm for arm in arms)),
        "pass_": _list(pass_.value for pass_ in Pass if any(arm.case.pass_ is pass_ for arm in arms)),
        "dtype": record.case.dtype.value,
    }
    return _command(info, record.conditions, [arm.provider for arm in arms], chosen)


def throughput_command(info: RunInfo, companies: Sequence[Company]) -> str:
    """Return the command that measures one network of the throughput tier again: its companies, which share their setting."""
    first, setting = companies[0], companies[0].setting
    case = next(one.record.case for one in (*first.arms.values(), *first.controls))
    assert isinstance(case, ThroughputCase), case.id
    chosen: dict[str, Any] = {"case": _list(one.record.case_id for company in companies for _, _, one in company.ordered)}
    options: dict[str, Any] = {}
    if len({company.size[1] for company in companies}) == 1:
        chosen = {
            "tier": Tier.THROUGHPUT.value,
            "network": first.network,
            "preset": setting.preset,
            "norm": _list(norm.value for company in companies for norm in company.norms),
            "mode": setting.mode.value,
            "batch": _list(str(company.size[0]) for company in companies),
            "tokens": first.size[1],
            "dtype": setting.dtype.value,
        }
        options = {"accumulation": case.accumulation, "autocast": case.autocast or "", "checkpointing": case.checkpointing}
    providers = [provider for company in companies for provider in company.providers]
    return _command(info, setting.conditions, providers, chosen, **options, sustain=_planned(info, "sustain_s", DEFAULTS.sustain))


def _command(info: RunInfo, conditions: Conditions, providers: Iterable[str], chosen: Mapping[str, Any], **options: Any) -> str:
    """Return the command that measures what is chosen, as a run did it; only of `options` defaults are left out."""
    said = {
        **chosen,
        "provider": _option(info.command, "--provider") or _list(providers),
        "device": conditions.device,
        "threads": conditions.threads,
        "cache": conditions.cache.value,
        "pages": conditions.pages.value,
        "budget": _planned(info, "budget_s", DEFAULTS.budget),
        "seed": info.seed,
    }
    if conditions.parallel is not None:
        said |= {"nproc": conditions.processes, "parallel": conditions.parallel.value}
    choices = Choices(**said, **options, timeout=_planned(info, "timeout_s", DEFAULTS.timeout))
    return shlex.join(["normbench", "run", *words_of(choices, always=said)])


def _list(words: Iterable[str]) -> str:
    """Return words as one option takes them, each once."""
    return ",".join(dict.fromkeys(words))


def _planned(info: RunInfo, name: str, default: float) -> float:
    """Return seconds of the run's plan."""
    plan = info.settings.get("plan", {})
    value = plan.get(name) if isinstance(plan, dict) else None
    return default if value is None else float(value)


def _option(command: Sequence[str], name: str) -> str | None:
    """Return the value a command gives an option, as `--name value` or `--name=value`."""
    for position, word in enumerate(command):
        if word == name and position + 1 < len(command):
            return command[position + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
