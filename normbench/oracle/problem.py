"""The tensors of a case on one device, from a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..cases.adversary import Layout, Trial
from ..cases.case import Case, Convention, DType
from .distortion import distort, lay_out

__all__ = ["Problem", "dtype_name", "dtype_of", "make_problem", "moved", "torch_dtype"]

# Filling 134M elements with fresh normal values takes seconds on two cores; repeating one tile is as fast as memory. The tile's
# length is prime, so that rows of every width below it start at different places in it and differ from each other.
TILE = 4_194_301

# No smaller magnitude is drawn: 2**-13 is twice the smallest normal float16, and float16 has the narrowest range of all dtypes. Zeros
# and subnormal numbers change the speed of some processors, and zeros hide a wrong factor.
SMALLEST = 2.0**-13

# Centred data hides two classic faults: padded lanes counted into the variance, and the cancellation of E[x2] - E[x]2.
X_MEAN = 0.5

# Upstream gradients that know nothing of x make both projections of the backward vanish like 1/sqrt(cols), and a kernel that drops
# them would pass at large widths. A share of x keeps them at full size.
DY_SHARE_OF_X = 0.5

_SUB_SEEDS = {"x": 0, "weight": 1, "bias": 2, "residual": 3, "dy": 4, "dresidual_out": 5}
_DIFFERENTIABLE = ("x", "weight", "bias", "residual")
_LAID_OUT = {"rows": ("x", "residual"), "columns": ("weight", "bias"), "upstream": ("dy", "dresidual_out")}
_ORDINARY = Trial()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Hold the inputs and upstream gradients of one case on one device; what the case does not have is None.

    `x`, `residual`, `dy`, `dresidual_out` have the case's shape and dtype, `weight` and `bias` shape (cols,) and its weight dtype;
    any of them may be a view of a larger tensor, whose other elements are nobody's to read or write. `dy` and `dresidual_out` are
    the upstream gradients of both outputs.
    """

    case: Case
    device: torch.device
    x: Tensor
    weight: Tensor | None
    bias: Tensor | None
    residual: Tensor | None
    dy: Tensor | None
    dresidual_out: Tensor | None


def torch_dtype(dtype: DType) -> torch.dtype:
    """Return PyTorch's dtype of the same name."""
    found = getattr(torch, dtype.value)
    assert isinstance(found, torch.dtype)
    return found


def dtype_name(dtype: torch.dtype) -> str:
    """Return PyTorch's name of a dtype, e.g. `float32`, whether a norm takes it or not."""
    return str(dtype).removeprefix("torch.")


def dtype_of(dtype: torch.dtype) -> DType | None:
    """Return the dtype of the same name, None for one that no norm takes."""
    name = dtype_name(dtype)
    return DType(name) if name in list(DType) else None


def make_problem(case: Case, *, device: str | torch.device, seed: int, trial: Trial = _ORDINARY) -> Problem:
    """Draw the tensors of a case, newly allocated, with the values and in the layout of a trial.

    The same seed gives the same bits on the same kind of device. Values are normal: x with mean 0.5, residual with mean 0, weight
    1 + 0.2 n (0.2 n for the gemma convention, whose factor is 1 + weight), bias 0.2 n, dy partly made of x and with the sign of
    every second row turned round. None is zero or subnormal; a trial writes its own values over them. x, weight, bias and residual
    ask for gradients if the pass has a backward: they are leaves of the graph even where they are views of larger tensors.
    """
    assert trial.fits(case), (case.id, trial)
    tensors = _ordinary_tensors(case, torch.device(device), seed)
    distort(case, trial.values, tensors)
    for name in _LAID_OUT[_group(trial.layout)]:
        if name in tensors:
            tensors[name] = lay_out(tensors[name], trial.layout)
    if case.pass_.has_backward:
        for name in _DIFFERENTIABLE:
            if name in tensors:
                # Laid out first: a view of a tensor that asks for gradients would be no leaf.
                tensors[name] = tensors[name].requires_grad_()
    return Problem(
        case=case,
        device=torch.device(device),
        x=tensors["x"],
        weight=tensors.get("weight"),
        bias=tensors.get("bias"),
        residual=tensors.get("residual"),
        dy=tensors.get("dy"),
        dresidual_out=tensors.get("dresidual_out"),
    )


def moved(problem: Problem) -> Problem:
    """Return a problem of the same values in newly allocated tensors; copying takes a fraction of drawing them."""
    tensors = {name: getattr(problem, name) for name in (*_DIFFERENTIABLE, "dy", "dresidual_out")}
    copies = {name: tensor.detach().clone().requires_grad_(tensor.requires_grad) for name, tensor in tensors.items() if tensor is not None}
    return replace(problem, **copies)


def _group(layout: Layout) -> str:
    return "upstream" if layout.is_upstream else "columns" if layout is Layout.STRIDED_WEIGHT else "rows"


def _ordinary_tensors(case: Case, device: torch.device, seed: int) -> dict[str, Tensor]:
    """Return the tensors that the case has, contiguous, of normal values and without gradients."""
    dtype = torch_dtype(case.dtype)

    def draw(name: str, numel: int) -> Tensor:
        generator = torch.Generator(device).manual_seed((seed * len(_SUB_SEEDS) + _SUB_SEEDS[name]) % 2**63)
        wide = torch.float64 if case.dtype is DType.FLOAT64 else torch.float32
        return torch.randn(min(numel, TILE), generator=generator, device=device, dtype=wide)

    def column_vector(name: str, mean: float) -> Tensor:
        assert case.weight_dtype is not None
        return _repeat(draw(name, case.cols) * 0.2 + mean, (case.cols,), torch_dtype(case.weight_dtype))

    x_tile = draw("x", case.numel) + X_MEAN
    tensors = {"x": _repeat(x_tile, case.shape, dtype)}
    if case.weight_dtype is not None:
        tensors["weight"] = column_vector("weight", 0.0 if case.convention is Convention.GEMMA else 1.0)
        if case.bias:
            tensors["bias"] = column_vector("bias", 0.0)
    if case.residual:
        tensors["residual"] = _repeat(draw("residual", case.numel), case.shape, dtype)
    if case.pass_.has_backward:
        dy = tensors["dy"] = _repeat(draw("dy", case.numel) + DY_SHARE_OF_X * x_tile, case.shape, dtype)
        # Sums over rows then stay near sqrt(rows): else the weight gradient of 131072 rows overflows float16, and dropped rows hide
        # in the rounding of a large sum.
        dy.view(case.rows, case.cols)[1::2].neg_()
        if case.residual:
            tensors["dresidual_out"] = _repeat(draw("dresidual_out", case.numel), case.shape, dtype)
    return tensors


def _repeat(tile: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a new tensor of `shape` filled with the tile over and over, its values kept away from zero."""
    tile = torch.where(tile.abs() < SMALLEST, SMALLEST, tile).to(dtype)
    full = torch.empty(shape, dtype=dtype, device=tile.device)
    flat = full.view(-1)
    whole = flat.numel() // max(tile.numel(), 1)
    if whole:
        flat[: whole * tile.numel()].view(whole, tile.numel()).copy_(tile)
    flat[whole * tile.numel() :].copy_(tile[: flat.numel() - whole * tile.numel()])
    return full
