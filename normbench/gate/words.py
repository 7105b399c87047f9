"""From the words of a gate's command line to a question; every mistake is refused before anything starts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..cases.case import Case
from ..cases.grids import DEFAULT_NORMS, GRIDS, expand
from ..cases.grids import grid as find_grid
from ..errors import UsageError
from ..job.selection import cases_by_id
from .process import CONTROL, Candidate

__all__ = ["candidates", "cases_of", "controls", "seconds", "share"]

CONTROL_SHAPES = ((64, 1024), (1024, 1024))
"""Working sets of 0.5 and 8 MiB in float32: one that a core's own cache holds and one that it does not."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def share(text: str, option: str) -> float:
    """Read `2%` or `0.02` as 0.02. Raises UsageError for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", text)
    if match is None:
        raise UsageError(f"--{option} {text!r} is not a share: give one such as 2% or 0.02")
    return float(match[1]) / (100 if match[2] else 1)


def seconds(text: str, option: str) -> float:
    """Read `300`, `90s`, `5m` or `1h` as seconds. Raises UsageError for anything else, and for 0."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([smh]?)\s*", text)
    if match is None or float(match[1]) == 0:
        raise UsageError(f"--{option} {text!r} is not a time: give one such as 90s or 5m")
    return float(match[1]) * _UNITS[match[2] or "s"]


def cases_of(text: str, *, norms: Sequence[str] = DEFAULT_NORMS, passes: Sequence[str], dtypes: Sequence[str]) -> list[Case]:
    """Read case ids separated by commas, the name of a grid, or shapes such as 4x128x512,8x1024.

    A grid's shapes without elements are left out, since no time tells of them. Raises UsageError for one that was asked for.
    """
    found = list(cases_by_id(text)) if "/" in text else expand(find_grid(text), norms=norms, passes=passes, dtypes=dtypes)
    timed = [case for case in found if not case.is_empty]
    if len(timed) < len(found) and text not in GRIDS:
        empty = next(case.id for case in found if case.is_empty)
        raise UsageError(f"case {empty} is empty: there is nothing to time; leave it out")
    return timed


def candidates(cases: Sequence[Case], specs: Sequence[tuple[str, str]]) -> tuple[Candidate, ...]:
    """Return every case by every pair of providers, base's and head's."""
    for base, head in specs:
        if CONTROL in (base, head):
            raise UsageError(f"a provider cannot be called {CONTROL!r} in a gate: its own controls have that name")
    return tuple(Candidate(case=case, base_spec=base, head_spec=head) for case in cases for base, head in specs)


def controls() -> tuple[Candidate, ...]:
    """Return what is compared with itself: PyTorch's own LayerNorm, forward, in float32."""
    cases = [Case.make("layer_norm", "forward", shape, "float32") for shape in CONTROL_SHAPES]
    return tuple(Candidate(case=case, base_spec=CONTROL, head_spec=CONTROL) for case in cases)
