"""`precision`: where eps is 0 and where x squared overflows in 16 bits, and what each weight convention rounds, on real tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

import torch
from torch import Tensor

from ..functional import apply
from .findings import Findings, Line, Panel, Point, Table
from .observation import Observation, Setting, Trial
from .over_seeds import chosen, spread
from .study import Plan, Scale, Study

__all__ = ["PRECISION"]

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
NORMS, EPS, COMPUTED = ("layer_norm", "rms_norm"), (1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-3), ("throughout", "in float32")
CONVENTIONS = ("torch", "llama", "gemma")
MAGNITUDES = tuple(10.0**exponent for exponent in range(-7, 5))
WIDTH = 64
_RIGHT = 0.01
"""How far an output may be from its exact value, relative to the row's size, to be called right."""

NormFunction = Callable[[Tensor, float], Tensor]


def layer_norm_throughout(x: Tensor, eps: float) -> Tensor:
    """Return LayerNorm of x with every intermediate value rounded to the dtype of x."""
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred / (variance + torch.tensor(eps, dtype=x.dtype)).sqrt()


def rms_norm_throughout(x: Tensor, eps: float) -> Tensor:
    """Return RMSNorm of x with every intermediate value rounded to the dtype of x."""
    return x / ((x * x).mean(-1, keepdim=True) + torch.tensor(eps, dtype=x.dtype)).sqrt()


THROUGHOUT: dict[str, NormFunction] = {"layer_norm": layer_norm_throughout, "rms_norm": rms_norm_throughout}


def _plan(scale: Scale) -> Plan:
    settings: list[Setting] = [
        {"dtype": dtype, "norm": norm, "eps": eps, "computed": computed}
        for dtype in DTYPES
        for computed in COMPUTED
        for norm in NORMS
        for eps in EPS
    ]
    conventions: list[Setting] = [{"dtype": dtype, "convention": convention} for dtype in DTYPES for convention in CONVENTIONS]
    trials = [Trial(setting=one, seed=0) for one in settings]
    trials += [Trial(setting=one, seed=seed) for one in conventions for seed in range(scale.seeds or 5)]
    return Plan(trials=tuple(trials))


def _observe(trial: Trial, common: Setting) -> Observation:
    dtype = DTYPES[str(trial.setting["dtype"])]
    if "convention" in trial.setting:
        return Observation.of(PRECISION.name, trial, values=_convention(str(trial.setting["convention"]), dtype, trial.seed))
    norm, eps = str(trial.setting["norm"]), float(trial.setting["eps"])
    function = _function(norm, is_throughout=trial.setting["computed"] == "throughout")
    zeros, constant = torch.zeros(1, WIDTH, dtype=dtype), torch.full((1, WIDTH), 1e-3, dtype=dtype)
    nonfinite = sum(int((~function(x, eps).isfinite()).sum()) for x in (zeros, constant))
    errors = [(size, _error(function, norm, size, eps, dtype)) for size in MAGNITUDES if size <= torch.finfo(dtype).max / 2]
    values = {
        "nonfinite": float(nonfinite),
        "eps_in_dtype": float(torch.tensor(eps, dtype=dtype)),
        "largest_right": _largest_right(function, norm, eps, dtype),
    }
    return Observation.of(PRECISION.name, trial, values=values, curves={"error": errors})


def _function(norm: str, *, is_throughout: bool) -> NormFunction:
    if is_throughout:
        return THROUGHOUT[norm]

    def in_float32(x: Tensor, eps: float) -> Tensor:
        y = apply(norm, x, eps=eps, provider="eager")
        assert isinstance(y, Tensor)
        return y

    return in_float32


def _row(size: float, dtype: torch.dtype) -> Tensor:
    """Return a row of ±size, whose mean is 0 and whose root mean square is size."""
    signs = torch.ones(1, WIDTH)
    signs[:, ::2] = -1
    return (size * signs).to(dtype)


def _error(function: NormFunction, norm: str, size: float, eps: float, dtype: torch.dtype) -> float:
    """Return the largest deviation from the same formula in float64, beside the output's own size."""
    x = _row(size, dtype)
    exact = THROUGHOUT[norm](x.double(), eps)
    found = (function(x, eps).double() - exact).abs().max() / exact.abs().max().clamp_min(1e-300)
    return float(found)


def _largest_right(function: NormFunction, norm: str, eps: float, dtype: torch.dtype) -> float:
    """Return the largest size of a row that is normed right, by bisection between 1 and the largest number of the dtype."""
    low, high = 1.0, float(torch.finfo(dtype).max)
    if _error(function, norm, high, eps, dtype) <= _RIGHT:
        return high
    while high / low > 1.0005:
        middle = sqrt(low * high)
        if _error(function, norm, middle, eps, dtype) <= _RIGHT:
            low = middle
        else:
            high = middle
    return low


def _convention(convention: str, dtype: torch.dtype, seed: int) -> dict[str, float]:
    """Return how many elements a convention rounds otherwise than `torch`, and its largest error in half units of the last place."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 4096, generator=generator).to(dtype)
    spread_out = 0.2 * torch.randn(4096, generator=generator)
    weight = spread_out.to(dtype) if convention == "gemma" else (1 + spread_out).to(dtype)
    y = apply("rms_norm", x, weight, eps=1e-6, convention=convention, provider="eager")
    plain = apply("rms_norm", x, (weight + 1) if convention == "gemma" else weight, eps=1e-6, provider="eager")
    assert isinstance(y, Tensor)
    assert isinstance(plain, Tensor)
    wide = x.double()
    factor = weight.double() + 1 if convention == "gemma" else weight.double()
    exact = wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * factor
    limits = torch.finfo(dtype)
    half_ulp = limits.eps / 2 * (2.0 ** exact.abs().log2().floor()).clamp_min(limits.tiny)
    return {
        "differs_percent": 100 * float((y != plain).double().mean()),
        "largest_error_half_ulps": float(((y.double() - exact).abs() / half_ulp).max()),
    }


def _says(observations: Sequence[Observation]) -> Findings:
    plain = [one for one in observations if "convention" not in one.setting]
    rows = [
        (
            str(one.setting["dtype"]),
            str(one.setting["computed"]),
            str(one.setting["norm"]),
            f"{one.setting['eps']:g}",
            f"{one.value('eps_in_dtype'):.3g}",
            f"{one.value('nonfinite'):.0f} of {2 * WIDTH}",
            f"{one.value('largest_right'):.4g}",
        )
        for one in plain
    ]
    conventions = [
        (
            dtype,
            convention,
            spread(same, "differs_percent").text(1) + " %",
            f"{max(one.value('largest_error_half_ulps') for one in same):.2f}",
        )
        for dtype in DTYPES
        for convention in CONVENTIONS
        if (same := chosen(observations, dtype=dtype, convention=convention))
    ]
    naive = chosen(plain, dtype="float16", computed="throughout", norm="rms_norm", eps=1e-6)[0]
    wide = chosen(plain, dtype="float16", computed="in float32", norm="rms_norm", eps=1e-6)[0]
    lost = [one for one in chosen(plain, dtype="float16", computed="throughout") if one.value("nonfinite")]
    largest_lost = max((float(one.setting["eps"]) for one in lost), default=0.0)
    return Findings(
        method=f"Rows of {WIDTH}: zeros, a constant 0.001, and ±size. `throughout` rounds every intermediate to the "
        "dtype; `in float32` is this "
        f"package's eager provider. Right: within {_RIGHT:g} of the same formula in float64, relative to the row's size. Conventions: 64 "
        "rows of 4096, weight 1 + 0.2 * normal; gemma, which adds 1 in float32, beside `torch` with 1 added in the dtype.",
        sentences=(
            f"In float16 throughout, x squared overflows: RMSNorm is right up to ±{naive.value('largest_right'):.0f}, where sqrt(65504) is "
            f"{sqrt(65504):.0f}. Computed in float32 it is right up to ±{wide.value('largest_right'):.0f}.",
            f"In float16 throughout, rows of zeros and of one value end in NaN for eps up to {largest_lost:g}, which is "
            "0 in float16; larger "
            "ones, 1e-6 and 1e-5 among them, keep them finite. Computed in float32 no row of these does.",
        ),
        tables=(
            Table(
                title="eps and overflow",
                columns=("dtype", "computed", "norm", "eps", "eps in the dtype", "not finite, constant rows", "right up to ±"),
                rows=tuple(rows),
            ),
            Table(
                title="Weight conventions",
                columns=("dtype", "convention", "elements unlike torch's", "largest error, half ulps"),
                rows=tuple(conventions),
            ),
        ),
        panels=(
            Panel(
                title="Error of RMSNorm by size of the row, eps 1e-6",
                x="size of the row",
                y="relative error",
                log_x=True,
                log_y=True,
                lines=tuple(
                    Line(
                        name=f"{one.setting['dtype']}, {one.setting['computed']}", points=tuple(Point(x, y) for x, y in one.curve("error"))
                    )
                    for one in chosen(plain, norm="rms_norm", eps=1e-6)
                ),
            ),
        ),
    )


PRECISION = Study(
    name="precision", summary="eps, overflow and weight conventions in float16 and bfloat16", plan=_plan, observe=_observe, says=_says
)
