"""What cases of a whole network have in common, whatever is measured of it (`NetworkCase`). Pure: imports no torch."""

from __future__ import annotations

from math import prod

import msgspec

from ..errors import UsageError
from .case import DType, Norm
from .shape import shape_text

__all__ = ["NetworkCase", "parsed_label"]


class NetworkCase(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what every case of a network names; the tiers that measure networks add what they do with it.

    `network` and `preset` name what `normbench.models` builds, `norm` is the kind that all of its norms have, native or swapped in.
    `size` is that of a batch, `dtype` that of the parameters.
    """

    network: str
    preset: str
    norm: Norm
    dtype: DType
    size: tuple[int, ...]

    @property
    def label(self) -> str:
        """Return network and preset, e.g. `gpt2-tiny`."""
        return f"{self.network}-{self.preset}"

    @property
    def norm_label(self) -> str:
        return self.norm.value

    @property
    def shape_label(self) -> str:
        return shape_text(self.size)

    @property
    def numel(self) -> int:
        """Return the number of tokens or pixels of a batch."""
        return prod(self.size)

    @property
    def is_empty(self) -> bool:
        return False

    @property
    def id(self) -> str:
        """Return the id, e.g. `model/gpt2-tiny/rms_norm/forward/2x64/float32`."""
        return self._spell(self.norm.value)

    @property
    def company(self) -> str:
        """Return what the cases share that take turns with each other: those that differ in nothing but the norm."""
        return self._spell("norm")

    def arm(self, provider: str) -> str:
        """Return the name of this case by a provider among those that take turns, e.g. `rms_norm:aten`."""
        return f"{self.norm.value}:{provider}"

    def _spell(self, norm: str) -> str:
        """Return the id with `norm` in the place of the norm's name."""
        raise NotImplementedError


def parsed_label(label: str, text: str) -> tuple[str, str]:
    """Return network and preset of the part `label` of the id `text`. Raises UsageError where it is not the two."""
    network, dash, preset = label.rpartition("-")
    if not dash:
        raise UsageError(f"case id {text!r}: {label!r} is not a network and its preset, such as gpt2-tiny")
    return network, preset
