"""What is measured in the model tier (`ModelCase`): one pass of a whole network whose norms are all of one kind. Pure: imports no torch."""

from __future__ import annotations

import re
from math import prod

import msgspec

from .case import DType, Norm, Pass, Tier, member
from .errors import UsageError
from .metric import TIME, Metric

__all__ = ["MODEL_PASSES", "ModelCase"]

MODEL_PASSES = (Pass.FORWARD, Pass.FORWARD_BACKWARD)
"""A backward alone is no step of a network that anybody runs."""


class ModelCase(msgspec.Struct, frozen=True, kw_only=True, rename={"pass_": "pass"}, tag_field="tier", tag=Tier.MODEL.value):
    """Describe one pass of a network, independent of provider, device and machine.

    `network` and `preset` name what `normbench.models` builds, `norm` is the kind that all of its norms have, native or swapped in.
    `size` is that of a batch: batch x tokens, or batch x channels x height x width. forward is inference, without gradients;
    forward_backward is forward, loss and the gradients of all parameters, the optimiser left out.
    """

    network: str
    preset: str
    norm: Norm
    pass_: Pass
    dtype: DType
    size: tuple[int, ...]

    @classmethod
    def make(
        cls, network: str, preset: str, norm: Norm | str, pass_: Pass | str, size: tuple[int, ...], dtype: DType | str = DType.FLOAT32
    ) -> ModelCase:
        """Build a case. Raises UsageError for an unknown word; whether there is such a network is for `normbench.models` to say."""
        found = member(Pass, pass_, "pass")
        if found not in MODEL_PASSES:
            raise UsageError(f"pass {found.value!r} is not measured of a network; known are {', '.join(MODEL_PASSES)}")
        for what, word in (("network", network), ("preset", preset)):
            if not re.fullmatch(r"[A-Za-z0-9_.]+", word):
                raise UsageError(f"{what} {word!r} is no name: letters, digits, '_' and '.' make one")
        if not size or any(not isinstance(one, int) or one < 1 for one in size):
            raise UsageError(f"size {size!r} is not that of a batch: give one or more whole numbers above 0")
        return cls(
            network=network,
            preset=preset,
            norm=member(Norm, norm, "norm"),
            pass_=found,
            dtype=member(DType, dtype, "dtype"),
            size=tuple(size),
        )

    @property
    def tier(self) -> Tier:
        return Tier.MODEL

    @property
    def metric(self) -> Metric:
        return TIME

    @property
    def company(self) -> str:
        """Return what the cases share that take turns with each other: those that differ in nothing but the norm."""
        return self._spell("norm")

    def arm(self, provider: str) -> str:
        """Return the name of this case by a provider among those that take turns, e.g. `rms_norm:aten`."""
        return f"{self.norm.value}:{provider}"

    @property
    def numel(self) -> int:
        """Return the number of tokens or pixels of a batch."""
        return prod(self.size)

    @property
    def is_empty(self) -> bool:
        return False

    @property
    def label(self) -> str:
        """Return network and preset, e.g. `gpt2-tiny`."""
        return f"{self.network}-{self.preset}"

    @property
    def norm_label(self) -> str:
        return self.norm.value

    @property
    def shape_label(self) -> str:
        return "x".join(map(str, self.size))

    @property
    def id(self) -> str:
        """Return the id, e.g. `model/gpt2-tiny/rms_norm/forward/2x64/float32`."""
        return self._spell(self.norm.value)

    def _spell(self, norm: str) -> str:
        return "/".join([self.tier.value, self.label, norm, self.pass_.value, self.shape_label, self.dtype.value])

    @classmethod
    def from_id(cls, text: str) -> ModelCase:
        """Parse an id made by `id`. Raises UsageError naming the part that does not fit."""
        parts = text.split("/")
        if len(parts) != 6 or parts[0] != Tier.MODEL.value:
            raise UsageError(f"case id {text!r} is not of the form model/network-preset/norm/pass/size/dtype")
        _, label, norm, pass_, size, dtype = parts
        network, dash, preset = label.rpartition("-")
        if not dash:
            raise UsageError(f"case id {text!r}: {label!r} is not a network and its preset, such as gpt2-tiny")
        if not re.fullmatch(r"[0-9]{1,9}(x[0-9]{1,9})*", size):
            raise UsageError(f"case id {text!r}: {size!r} is not a size such as 2x64")
        try:
            return cls.make(network, preset, norm, pass_, tuple(int(one) for one in size.split("x")), dtype)
        except UsageError as error:
            raise UsageError(f"case id {text!r}: {error}") from None
