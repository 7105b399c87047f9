"""A profile in the terminal: by kind of module, by module, by operator, and its norms. Returns renderables; printing is the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ..quantities.units import DASH, TIME_UNITS, bytes_text, number, percent, time_unit
from ..screen.terminal import FittingTable
from .parts import NormPart, Part, by_kind, by_module, by_operator, norm_parts
from .summary import Profile
from .words import count_text, headlines

__all__ = ["profile_tables"]

ROWS = 14
"""Operators shown; those left out are one row."""
LEAST_SHARE = 0.005
"""Modules that take less of the step are left out of the table; norms have a table of their own."""


def profile_tables(profile: Profile, title: str) -> RenderableType:
    """Return the headlines and the tables of a profile."""
    kinds = by_kind(profile)
    unit = time_unit(part.host_s for part in kinds if part.host_s)
    parts: list[RenderableType] = [Text(title, style="bold"), *(Text(line) for line in headlines(profile)), Text()]
    parts += [_table("kind of module", kinds, profile, unit), Text()]
    parts += [_table("module", _modules_shown(by_module(profile)), profile, unit), Text()]
    parts += [_table("operator", _operators_shown(by_operator(profile)), profile, unit), Text()]
    if norms := norm_parts(profile):
        parts += [_norm_table(norms, profile, unit), Text()]
    return Group(*parts)


def _table(what: str, parts: Iterable[Part], profile: Profile, unit: str) -> FittingTable:
    on_device = profile.device_s is not None
    host = "host " if on_device else ""
    table = _columns(what, "calls", f"{host}forward {unit}", *([f"{host}backward {unit}"] if profile.trains else []))
    for name in ("device forward", "device backward") if on_device else ():
        if profile.trains or name.endswith("forward"):
            table.add_column(f"{name} {unit}", justify="right")
    for name in ("kernels", "share of device") if on_device else ("share",):
        table.add_column(name, justify="right", no_wrap=True)
    for part in parts:
        table.add_row(*_cells(part, profile, unit))
    return table


def _columns(first: str, *others: str) -> FittingTable:
    table = FittingTable(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _cells(part: Part, profile: Profile, unit: str) -> list[str]:
    host = [part.forward_s, *([part.backward_s] if profile.trains else [])]
    cells = [part.name, count_text(part.calls) if part.calls else DASH, *(_time(time_s, unit) for time_s in host)]
    if profile.device_s is not None:
        device = [part.forward_device_s, *([part.backward_device_s] if profile.trains else [])]
        cells += [*(_time(time_s, unit) for time_s in device), count_text(part.kernels)]
    return [*cells, percent(part.share)]


def _time(time_s: float, unit: str) -> str:
    return number(time_s / TIME_UNITS[unit]) if time_s else DASH


def _modules_shown(parts: Sequence[Part]) -> list[Part]:
    """Return the modules that take enough, indented as they lie in each other, under the last part of their path."""
    return [_renamed(part, _in_tree(part.name)) for part in parts if part.share >= LEAST_SHARE]


def _in_tree(path: str) -> str:
    return f"{'  ' * path.count('.')}{path.rpartition('.')[2]}" if path else "(the network)"


def _operators_shown(parts: Sequence[Part]) -> list[Part]:
    if len(parts) <= ROWS:
        return list(parts)
    rest = parts[ROWS:]
    return [*parts[:ROWS], _sum(f"({len(rest)} others)", rest)]


def _sum(name: str, parts: Sequence[Part]) -> Part:
    fields = [field for field in Part.__struct_fields__ if field != "name"]
    return Part(name=name, **{field: sum(getattr(part, field) for part in parts) for field in fields})


def _renamed(part: Part, name: str) -> Part:
    return Part(name=name, **{field: getattr(part, field) for field in Part.__struct_fields__ if field != "name"})


def _norm_table(norms: Sequence[NormPart], profile: Profile, unit: str) -> FittingTable:
    passes = ("forward", "backward") if profile.trains else ("forward",)
    table = _columns("norm", "kind", "shape", "dtype", "calls", *(f"{name} {unit}" for name in passes), "share", "fewest bytes", "GB/s")
    for one in norms:
        part = one.part
        seconds = (part.forward_s, part.backward_s) if profile.device_s is None else (part.forward_device_s, part.backward_device_s)
        table.add_row(
            part.name,
            one.norm,
            " ".join(one.shapes) or DASH,
            " ".join(one.dtypes) or DASH,
            count_text(part.calls),
            *(_time(time_s, unit) for time_s in seconds[: len(passes)]),
            percent(part.share),
            DASH if one.bytes is None else bytes_text(one.bytes),
            DASH if one.gbps is None else number(one.gbps),
        )
    return table
