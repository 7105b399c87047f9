"""A module's stand-in: a copy that can be run on made-up inputs, in any dtype and mode, while the module stays as it is."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["NoNorm", "NotANorm", "StandIn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNorm:
    """Say why a module is neither LayerNorm nor RMSNorm, and whether it comes near one."""

    reason: str
    is_near: bool


class NotANorm(Exception):
    """Leave the examination with the reason, and whether what was seen is near a norm."""

    def __init__(self, reason: str, *, is_near: bool = False) -> None:
        super().__init__(reason)
        self.answer = NoNorm(reason=reason, is_near=is_near)


class StandIn:
    """A module's stand-in: its class and attributes, tensors of its own, none of its hooks."""

    def __init__(self, module: nn.Module) -> None:
        if "forward" in vars(module):
            raise NotANorm("its forward was replaced on this one instance, by what cannot be told")
        self._module = module
        self.is_training = module.training
        self.names = [name for name, _ in module.named_parameters(recurse=False)]
        self.shape = _shape(module)
        self.cols = prod(self.shape)
        self.device = next((parameter.device for parameter in module.parameters(recurse=False)), torch.device("cpu"))
        if self.device.type == "meta":
            raise NotANorm("its parameters are on the meta device: load it first")
        if self.cols < 2:
            raise NotANorm("a single value is no row to be normed")
        self._generator = torch.Generator().manual_seed(0)
        self.drawn = {name: self._draw(self.cols) * 0.5 + 1.0 for name in self.names}

    def _draw(self, *size: int) -> Tensor:
        return torch.randn(*size, generator=self._generator, dtype=torch.float64).to(self.device)

    def rows(self, kinds: tuple[tuple[float, float], ...]) -> Tensor:
        """Return a row of `cols` float64 values for each (spread, mean)."""
        return torch.stack([self._draw(self.cols) * spread + mean for spread, mean in kinds])

    def declared_eps(self) -> list[float]:
        """Return the numbers among its attributes that are called an eps."""
        return [float(value) for name, value in vars(self._module).items() if "eps" in name.lower() and isinstance(value, float | int)]

    def __call__(
        self,
        x: Tensor,
        parameters: dict[str, Tensor],
        dtype: torch.dtype,
        *,
        leading: tuple[int, ...] | None = None,
        is_training: bool | None = None,
    ) -> Tensor:
        """Return as float64 what the module makes of rows (rows, cols) that are given to it in `dtype`.

        They are given as (rows / 2, 2, …), or (*leading, …), in the module's own mode unless one is said.
        """
        return self.raw(x, parameters, dtype, leading=leading, is_training=is_training).reshape(x.shape).double()

    def raw(
        self,
        x: Tensor,
        parameters: dict[str, Tensor],
        dtype: torch.dtype,
        *,
        leading: tuple[int, ...] | None = None,
        is_training: bool | None = None,
    ) -> Tensor:
        """Return what the module makes of rows, as `__call__` does, in the shape and the dtype in which it comes."""
        module = self._copy(parameters, dtype, is_training)
        given = x.to(dtype).reshape(*(leading or (x.shape[0] // 2, 2)), *self.shape)
        try:
            y = module.forward(given)
        except Exception as error:
            raise NotANorm(f"it cannot be called on one tensor {tuple(given.shape)}: {type(error).__name__}: {error}") from None
        if not isinstance(y, Tensor) or y.shape != given.shape:
            raise NotANorm("what it returns is not one tensor of the shape of its input")
        return y

    def _copy(self, parameters: dict[str, Tensor], dtype: torch.dtype, is_training: bool | None) -> Any:
        module = copy.copy(self._module)
        own = vars(module)
        for name, value in list(own.items()):
            if "hooks" in name or isinstance(value, list | dict | set):
                own[name] = copy.copy(value)
            if "hooks" in name:
                own[name].clear()
        for name, parameter in parameters.items():
            module._parameters[name] = nn.Parameter(parameter.reshape(self.shape).to(dtype), requires_grad=False)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = buffer.clone()
        if is_training is not None:
            # Its parts have no parameters, and the model's own keep their mode.
            module._modules.update({name: copy.deepcopy(part) for name, part in module._modules.items()})
            module.train(is_training)
        return module


def _shape(module: nn.Module) -> tuple[int, ...]:
    for parameter in module.parameters(recurse=False):
        return tuple(parameter.shape)
    declared = getattr(module, "normalized_shape", None)
    if isinstance(declared, int):
        return (declared,)
    if isinstance(declared, tuple | list | torch.Size) and declared:
        return tuple(declared)
    raise NotANorm("neither a parameter nor an attribute normalized_shape tells how wide it is")
