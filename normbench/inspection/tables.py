"""Inspections as rows of text: variants that share their machine code share a row. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..quantities.units import some
from .budget import Breach
from .difference import Difference
from .figures import Variant, share_of_vectors

__all__ = ["COLUMNS", "breach_rows", "change_rows", "variant_rows"]

HASH_LENGTH = 10

COLUMNS = (
    "kernel",
    "provider",
    "norm",
    "convention",
    "pass",
    "dtype",
    "cols",
    "arch",
    "threads",
    "regs",
    "stack",
    "shared",
    "loads 128",
    "stores 128",
    "instr",
    "code",
)


def variant_rows(variants: Sequence[Variant]) -> list[dict[str, str]]:
    """Return a row for each distinct machine code of a kernel, its norms, passes, dtypes and widths listed in it."""
    together: dict[tuple[Any, ...], list[Variant]] = {}
    for variant in variants:
        code = variant.figures.code_hash if variant.figures else variant.error
        together.setdefault((variant.provider, variant.kernel, variant.arch, code), []).append(variant)
    return [_row(group) for group in together.values()]


def _row(group: Sequence[Variant]) -> dict[str, str]:
    first = group[0]
    row = {
        "kernel": first.kernel,
        "provider": first.provider,
        "norm": _listed(variant.norm for variant in group),
        "convention": _listed(variant.convention for variant in group),
        "pass": _listed(variant.pass_ for variant in group),
        "dtype": _listed(variant.dtype for variant in group),
        "cols": _listed(str(variant.cols) for variant in group),
        "arch": first.arch,
    }
    figures = first.figures
    if figures is None:
        return row | dict.fromkeys(COLUMNS[len(row) :], "") | {"code": first.error or ""}
    return row | {
        "threads": str(figures.threads),
        "regs": str(figures.registers),
        "stack": str(figures.stack_bytes),
        "shared": str(figures.shared_bytes),
        "loads 128": _share(figures.loads),
        "stores 128": _share(figures.stores),
        "instr": str(figures.instructions),
        "code": figures.code_hash[:HASH_LENGTH],
    }


def _listed(values: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(values))


def _share(counts: dict[int, int]) -> str:
    share = share_of_vectors(counts)
    return "none" if share is None else f"{share:.0%} of {sum(counts.values())}"


def breach_rows(breaches: Sequence[Breach]) -> list[dict[str, str]]:
    """Return a row for each way in which a kernel breaks a budget on an architecture, its cases listed in it."""
    together: dict[tuple[str, ...], list[str]] = {}
    for breach in breaches:
        together.setdefault((breach.kernel, breach.arch, breach.budget, breach.message), []).append(breach.case)
    return [
        {
            "kernel": kernel,
            "arch": arch,
            "budget": budget,
            "case": some(cases, 1),
            "by how much": message,
        }
        for (kernel, arch, budget, message), cases in together.items()
    ]


def change_rows(difference: Difference) -> list[dict[str, str]]:
    """Return a row for each variant that changed, appeared or disappeared."""
    rows = [_change("changed", change.before, change.after) for change in difference.changed]
    rows += [_change("appeared", None, variant) for variant in difference.appeared]
    return rows + [_change("disappeared", variant, None) for variant in difference.disappeared]


def _change(what: str, before: Variant | None, after: Variant | None) -> dict[str, str]:
    variant = after or before
    assert variant is not None
    row = {"what": what, "kernel": variant.kernel, "arch": variant.arch, "provider": variant.provider, "case": variant.case}
    fields = {"regs": "registers", "stack": "stack_bytes", "shared": "shared_bytes", "instr": "instructions", "code": "code_hash"}
    return row | {column: _from_to(_figure(before, name), _figure(after, name)) for column, name in fields.items()}


def _figure(variant: Variant | None, name: str) -> str:
    if variant is None:
        return ""
    return "none" if variant.figures is None else str(getattr(variant.figures, name))[:HASH_LENGTH]


def _from_to(before: str, after: str) -> str:
    return before or after if before == after or not (before and after) else f"{before} → {after}"
