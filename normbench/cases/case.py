"""What is measured in the op tier (`Case`), whoever does it, and the words that all tiers share.

Its id is stable and readable: with that of its `Conditions` the pytest id, the key of a record and the key of the gate alike. Pure:
imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from math import prod
from operator import index

import msgspec

from ..errors import UsageError
from ..text.words import member
from .metric import TIME, Metric
from .shape import parsed_shape, shape_text

__all__ = ["Case", "Convention", "DType", "Norm", "Pass", "Tier", "parsed_options"]


def parsed_options(parts: Sequence[str], text: str, parse: Callable[[str, str], tuple[str, object]]) -> dict[str, object]:
    """Return by name what the optional parts of the id `text` stand for, each as `parse(part, text)` says.

    Raises UsageError naming a part that sets what an earlier one has set.
    """
    options: dict[str, object] = {}
    for part in parts:
        name, value = parse(part, text)
        if name in options:
            raise UsageError(f"case id {text!r}: {part!r} contradicts or repeats an earlier part")
        options[name] = value
    return options


class Tier(StrEnum):
    """Name the scope of a timing: one norm call, one step of a network, or tokens per second."""

    OP = "op"
    MODEL = "model"
    THROUGHPUT = "throughput"


class Norm(StrEnum):
    LAYER_NORM = "layer_norm"
    RMS_NORM = "rms_norm"

    @property
    def default_eps(self) -> float:
        """Return the eps in common use: 1e-5 for LayerNorm (arXiv:1607.06450 codes), 1e-6 for RMSNorm (LLaMA)."""
        return 1e-5 if self is Norm.LAYER_NORM else 1e-6


class Pass(StrEnum):
    FORWARD = "forward"
    BACKWARD = "backward"
    FORWARD_BACKWARD = "forward_backward"

    @property
    def has_backward(self) -> bool:
        return self is not Pass.FORWARD

    @property
    def has_forward(self) -> bool:
        return self is not Pass.BACKWARD


class DType(StrEnum):
    FLOAT64 = "float64"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"

    @property
    def itemsize(self) -> int:
        """Return the size of one element in bytes."""
        return {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}[self.value]


class Convention(StrEnum):
    """Say where the rounding to the input dtype happens relative to the weight.

    torch: multiply in fp32, round once. llama: round x-hat to the input dtype, then multiply. gemma: multiply by 1 + weight in fp32.
    """

    TORCH = "torch"
    LLAMA = "llama"
    GEMMA = "gemma"


class Case(msgspec.Struct, frozen=True, kw_only=True, rename={"pass_": "pass"}, tag_field="tier", tag=Tier.OP.value):
    """Describe one norm computation, independent of provider, device and machine: a case of the op tier.

    `shape` is that of x; the norm runs over its last dimension. `weight_dtype` None means no weight.
    `residual` means y = norm(x + residual), with the sum as a second output.
    """

    norm: Norm
    pass_: Pass
    shape: tuple[int, ...]
    dtype: DType
    weight_dtype: DType | None
    bias: bool
    residual: bool = False
    eps: float
    convention: Convention = Convention.TORCH

    @classmethod
    def make(
        cls,
        norm: Norm | str,
        pass_: Pass | str,
        shape: tuple[int, ...],
        dtype: DType | str,
        *,
        residual: bool = False,
        weight: bool = True,
        weight_dtype: DType | str | None = None,
        bias: bool | None = None,
        eps: float | None = None,
        convention: Convention | str = Convention.TORCH,
    ) -> Case:
        """Build a case from the usual defaults: weight in x's dtype, a bias for LayerNorm only, the norm's own eps.

        Raises UsageError for an unknown word or an impossible combination.
        """
        norm, dtype = member(Norm, norm, "norm"), member(DType, dtype, "dtype")
        if weight_dtype is not None and not weight:
            raise UsageError(f"weight dtype {str(weight_dtype)!r} without a weight: leave one of the two out")
        try:
            sizes = tuple(index(size) for size in shape)
        except TypeError:
            raise UsageError(f"shape {shape!r} is not a shape: its sizes must be whole numbers") from None
        case = cls(
            norm=norm,
            pass_=member(Pass, pass_, "pass"),
            shape=sizes,
            dtype=dtype,
            weight_dtype=member(DType, weight_dtype or dtype, "weight dtype") if weight else None,
            bias=(norm is Norm.LAYER_NORM and weight) if bias is None else bias,
            residual=residual,
            # Adding 0 turns -0.0, which would have an id of its own, into 0.0.
            eps=norm.default_eps if eps is None else float(eps) + 0.0,
            convention=member(Convention, convention, "convention"),
        )
        case._validate()
        return case

    def _validate(self) -> None:
        if not self.shape or any(size < 0 for size in self.shape):
            raise UsageError(f"shape {self.shape!r} is not a shape: give one or more sizes, none negative")
        if not self.eps >= 0 or self.eps == float("inf"):
            raise UsageError(f"eps {self.eps!r} is not a finite number of at least 0")
        if self.bias and self.weight_dtype is None:
            raise UsageError("a bias without a weight is not supported: give both, or no bias")
        if self.convention is not Convention.TORCH and self.norm is not Norm.RMS_NORM:
            raise UsageError(f"convention {self.convention.value!r} is defined for rms_norm only, not {self.norm.value}")

    @property
    def tier(self) -> Tier:
        return Tier.OP

    @property
    def metric(self) -> Metric:
        return TIME

    @property
    def company(self) -> str:
        """Return what the cases share that take turns with each other: providers of one case do, of different cases do not."""
        return self.id

    def arm(self, provider: str) -> str:
        """Return the name of this case by a provider among those that take turns."""
        return provider

    @property
    def rows(self) -> int:
        """Return the number of independent statistics: the product of all sizes but the last."""
        return prod(self.shape[:-1])

    @property
    def cols(self) -> int:
        """Return the width that each statistic runs over: the last size."""
        return self.shape[-1]

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def is_empty(self) -> bool:
        return self.numel == 0

    @property
    def norm_label(self) -> str:
        """Return the norm's name as users write it: `rms_norm`, or `add_rms_norm` with a residual."""
        return f"add_{self.norm.value}" if self.residual else self.norm.value

    @property
    def shape_label(self) -> str:
        return shape_text(self.shape)

    @property
    def id(self) -> str:
        """Return the id, e.g. `op/rms_norm/forward/4x128x512/float32`; what differs from the defaults is appended."""
        parts = [self.tier.value, self.norm_label, self.pass_.value, self.shape_label, self.dtype.value]
        if self.weight_dtype is None:
            parts.append("noweight")
        elif self.weight_dtype is not self.dtype:
            parts.append(f"w-{self.weight_dtype.value}")
        if self.weight_dtype is not None and self.bias != (self.norm is Norm.LAYER_NORM):
            parts.append("bias" if self.bias else "nobias")
        if self.eps != self.norm.default_eps:
            parts.append(f"eps-{self.eps!r}")
        if self.convention is not Convention.TORCH:
            parts.append(self.convention.value)
        return "/".join(parts)

    @classmethod
    def from_id(cls, text: str) -> Case:
        """Parse an id made by `id`. Raises UsageError naming the part that does not fit."""
        parts = text.split("/")
        if len(parts) < 5:
            raise UsageError(f"case id {text!r} has {len(parts)} parts; it needs at least tier/norm/pass/shape/dtype")
        tier, norm, pass_, shape, dtype, *rest = parts
        if tier != Tier.OP.value:
            raise UsageError(f"case id {text!r}: tier {tier!r} is not {Tier.OP.value!r}, the tier of one call of one norm")
        residual = norm.startswith("add_")
        options = parsed_options(rest, text, _parse_option)
        try:
            return cls.make(norm.removeprefix("add_"), pass_, parsed_shape(shape), dtype, residual=residual, **options)  # type: ignore[arg-type]
        except UsageError as error:
            raise UsageError(f"case id {text!r}: {error}") from None


def _parse_option(part: str, text: str) -> tuple[str, object]:
    """Return name and value of the argument of `Case.make` that an optional part of the id `text` stands for."""
    if part == "noweight":
        return "weight", False
    if part in ("bias", "nobias"):
        return "bias", part == "bias"
    if part.startswith("w-"):
        return "weight_dtype", part[2:]
    if part in (Convention.LLAMA.value, Convention.GEMMA.value):
        return "convention", part
    if part.startswith("eps-"):
        try:
            return "eps", float(part[4:])
        except ValueError:
            raise UsageError(f"case id {text!r}: {part!r} is not eps- and a number") from None
    raise UsageError(f"case id {text!r}: {part!r} is not a known part")
