"""The commands that make a run, or one table of it, again. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePath

from ..choices import Choices
from ..stored_run import RunInfo
from .tables import ScopeResults, shape_text

__all__ = ["run_command", "scope_command"]


def run_command(info: RunInfo) -> str:
    """Return the command that made the run, its program without the path it was installed under."""
    if not info.command:
        return ""
    return shlex.join([PurePath(info.command[0]).name, *info.command[1:]])


def scope_command(info: RunInfo, grid: ScopeResults) -> str:
    """Return the command that measures one table again: its shapes and providers, under its conditions."""
    scope = grid.scope
    words = ["normbench", "run"]
    if scope.options:
        ids = [result.record.case_id for shape in grid.shapes for result in grid.row(shape)[:1]]
        words += ["--case", ",".join(ids)]
    else:
        words += ["--grid", ",".join(map(shape_text, grid.shapes))]
        words += ["--norm", scope.norm, "--pass", scope.pass_.value, "--dtype", scope.dtype.value]
    conditions = scope.conditions
    words += ["--provider", _option(info.command, "--provider") or ",".join(grid.providers)]
    words += ["--device", conditions.device, "--threads", str(conditions.threads)]
    words += ["--cache", conditions.cache.value, "--pages", conditions.pages.value]
    words += ["--budget", f"{_budget(info):g}", "--seed", str(info.seed)]
    return shlex.join(words)


def _budget(info: RunInfo) -> float:
    plan = info.settings.get("plan", {})
    value = plan.get("budget_s") if isinstance(plan, dict) else None
    return float(value) if value is not None else Choices().budget


def _option(command: Sequence[str], name: str) -> str | None:
    """Return the value a command gives an option, as `--name value` or `--name=value`."""
    for position, word in enumerate(command):
        if word == name and position + 1 < len(command):
            return command[position + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
