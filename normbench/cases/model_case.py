"""What is measured in the model tier (`ModelCase`): one pass of a whole network whose norms are all of one kind. Pure: imports no torch."""

from __future__ import annotations

import re

from ..errors import UsageError
from ..text.words import member
from .case import DType, Norm, Pass, Tier
from .metric import TIME, Metric
from .network_case import NetworkCase, parsed_label
from .shape import parsed_shape

__all__ = ["MODEL_PASSES", "ModelCase"]

MODEL_PASSES = (Pass.FORWARD, Pass.FORWARD_BACKWARD)
"""A backward alone is no step of a network that anybody runs."""


class ModelCase(NetworkCase, frozen=True, kw_only=True, rename={"pass_": "pass"}, tag_field="tier", tag=Tier.MODEL.value):
    """Describe one pass of a network, independent of provider, device and machine.

    `size` is that of a batch: batch x tokens, or batch x channels x height x width. forward is inference, without gradients;
    forward_backward is forward, loss and the gradients of all parameters, the optimiser left out.
    """

    pass_: Pass

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

    def _spell(self, norm: str) -> str:
        return "/".join([self.tier.value, self.label, norm, self.pass_.value, self.shape_label, self.dtype.value])

    @classmethod
    def from_id(cls, text: str) -> ModelCase:
        """Parse an id made by `id`. Raises UsageError naming the part that does not fit."""
        parts = text.split("/")
        if len(parts) != 6 or parts[0] != Tier.MODEL.value:
            raise UsageError(f"case id {text!r} is not of the form model/network-preset/norm/pass/size/dtype")
        _, label, norm, pass_, size, dtype = parts
        network, preset = parsed_label(label, text)
        try:
            return cls.make(network, preset, norm, pass_, parsed_shape(size), dtype)
        except UsageError as error:
            raise UsageError(f"case id {text!r}: {error}") from None
