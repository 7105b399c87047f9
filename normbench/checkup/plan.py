"""What a check-up consists of: cases in which every two choices meet, and the trials of each. Pure: imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from math import prod
from typing import Any

import msgspec

from ..cases.adversary import Layout, Trial, Values
from ..cases.case import Case, Convention, DType, Norm, Pass
from ..cases.grids import NORM_LABELS, GridShape
from .pairs import cover_pairs

__all__ = ["Affine", "Examination", "Form", "forms", "of_cases", "of_shapes"]


class Affine(StrEnum):
    """Say what of weight and bias a case has."""

    USUAL = "usual"
    NONE = "none"
    OTHER_BIAS = "other_bias"
    OTHER_DTYPE = "other_dtype"


# Beside 16 bits the weight that mixed-precision training keeps; beside float32 what is left of it in a checkpoint of 16 bits.
_OTHER_DTYPE = {
    DType.FLOAT64: DType.FLOAT32,
    DType.FLOAT32: DType.BFLOAT16,
    DType.BFLOAT16: DType.FLOAT32,
    DType.FLOAT16: DType.FLOAT32,
}

# The norm's own, and one that float16 rounds to 0.
_EPS = (None, 1e-12)


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """Name what is computed: a norm, in which weight convention, of x or of x + residual."""

    norm: Norm
    convention: Convention
    residual: bool


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for one case to be tried with the tensors of each trial; all trials have one layout, so a compiled function serves them all."""

    case: Case
    trials: tuple[Trial, ...]


def forms(norm_labels: Sequence[str]) -> list[Form]:
    """Return each norm in every convention that is defined for it."""
    found = []
    for label in norm_labels:
        norm, residual = NORM_LABELS[label]
        conventions = Convention if norm is Norm.RMS_NORM else (Convention.TORCH,)
        found += [Form(norm=norm, convention=convention, residual=residual) for convention in conventions]
    return found


def of_shapes(
    shapes: Sequence[GridShape],
    *,
    norm_labels: Sequence[str],
    passes: Sequence[Pass],
    dtypes: Sequence[DType],
    values: Sequence[Values],
    layouts: Sequence[Layout],
) -> list[Examination]:
    """Return examinations in which every two of shape, layout, form, dtype, affine, pass and eps meet, each with all fitting values.

    Between them is what people use: every form in every dtype, weight and bias as usual, contiguous, at the shape of the most rows and
    with a backward. A gradient summed in 16 bits shows where four choices meet.
    """
    factors: dict[str, Sequence[Any]] = {
        "shape": [entry.shape for entry in shapes],
        "layout": layouts,
        "form": forms(norm_labels),
        "dtype": dtypes,
        "affine": list(Affine),
        "pass": passes,
        "eps": _EPS,
    }
    rows = [row for both in zip_longest(_usual(factors), cover_pairs(factors, _go_together)) for row in both if row is not None]
    # Two rows can come to the same case: an affine form says nothing where it changes nothing.
    planned = dict.fromkeys((_case_of(row), row["layout"]) for row in rows)
    return [one for place, (case, layout) in enumerate(planned) if (one := _examination(case, layout, values, place))]


def _usual(factors: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return a row for every form and dtype as people use them, the dtypes taking turns so that the first rows hold all forms."""
    passes = [one for one in factors["pass"] if one.has_backward] or factors["pass"]
    layout = Layout.CONTIGUOUS
    if layout not in factors["layout"]:
        return []
    fixed = {
        "shape": max(factors["shape"], key=lambda shape: prod(shape[:-1])),
        "layout": layout,
        "affine": Affine.USUAL,
        "pass": passes[-1],
        "eps": None,
    }
    kinds, dtypes = factors["form"], factors["dtype"]
    return [
        {**fixed, "form": form, "dtype": dtypes[(turn + place) % len(dtypes)]}
        for turn in range(len(dtypes))
        for place, form in enumerate(kinds)
    ]


def of_cases(cases: Sequence[Case], *, values: Sequence[Values], layouts: Sequence[Layout]) -> list[Examination]:
    """Return the examinations of given cases in every layout and with all values that fit each."""
    planned = [(case, layout) for case in cases for layout in layouts if layout.fits(case)]
    return [one for place, (case, layout) in enumerate(planned) if (one := _examination(case, layout, values, place))]


def _examination(case: Case, layout: Layout, values: Sequence[Values], place: int) -> Examination | None:
    """Return an examination, its values in an order of its own: who takes only the first few of each has seen all after a few cases."""
    fitting = [one for one in values if one.fits(case)]
    ordinary, others = [one for one in fitting if one is Values.NORMAL], [one for one in fitting if one is not Values.NORMAL]
    start = place % max(len(others), 1)
    trials = tuple(Trial(values=one, layout=layout) for one in [*ordinary, *others[start:], *others[:start]])
    return Examination(case=case, trials=trials) if trials else None


def _go_together(factor: str, choice: Any, other_factor: str, other: Any) -> bool:
    match factor, other_factor:
        case "shape", "layout":
            found: bool = other.fits(Case.make(Norm.RMS_NORM, Pass.FORWARD_BACKWARD, choice, DType.FLOAT32))
            return found
        case "layout", "pass":
            return other.has_backward or not choice.is_upstream
        case "layout", "affine":
            return not (choice is Layout.STRIDED_WEIGHT and other is Affine.NONE)
    return True


def _case_of(row: dict[str, Any]) -> Case:
    form, affine, dtype = row["form"], row["affine"], row["dtype"]
    return Case.make(
        form.norm,
        row["pass"],
        row["shape"],
        dtype,
        residual=form.residual,
        weight=affine is not Affine.NONE,
        weight_dtype=_OTHER_DTYPE[dtype] if affine is Affine.OTHER_DTYPE else None,
        bias=form.norm is not Norm.LAYER_NORM if affine is Affine.OTHER_BIAS else None,
        eps=row["eps"],
        convention=form.convention,
    )
