"""What is measured in the throughput tier (`ThroughputCase`): training or serving by a whole network, in tokens. Pure: imports no torch."""

from __future__ import annotations

import re
from enum import StrEnum

from ..errors import UsageError
from ..text.words import member
from .case import DType, Norm, Pass, Tier, parsed_options
from .metric import Metric, tokens_metric
from .model_case import ModelCase
from .network_case import NetworkCase, parsed_label
from .shape import parsed_shape, shape_text

__all__ = ["SERVED_BATCHES", "Mode", "ThroughputCase"]

SERVED_BATCHES = (1, 4, 16, 64)
"""One user, and three loads of a server: what is served where nobody says."""
_PROMPT_QUARTERS = 3
"""Quarters of the positions of a decode that its prompt takes; the tokens of the last one are written one by one."""


class Mode(StrEnum):
    """Say what one call does: a training step with its optimiser, reading prompts, or writing one more token of each sequence."""

    TRAIN = "train"
    PREFILL = "prefill"
    DECODE = "decode"


class ThroughputCase(NetworkCase, frozen=True, kw_only=True, tag_field="tier", tag=Tier.THROUGHPUT.value):
    """Describe training or serving by a network, independent of provider, device and machine.

    `size` is batch x tokens: of one microbatch, of the prompts that are read, or of all positions of a decode, three quarters of which
    are prompt. A training step takes `accumulation` microbatches; under `autocast` operators compute in that dtype where PyTorch's
    autocast says so, and `dtype` is that of parameters; `checkpointing` computes activations again in the backward instead of keeping them.
    """

    size: tuple[int, int]
    mode: Mode
    accumulation: int = 1
    autocast: DType | None = None
    checkpointing: bool = False

    @classmethod
    def make(
        cls,
        network: str,
        preset: str,
        norm: Norm | str,
        mode: Mode | str,
        size: tuple[int, ...],
        dtype: DType | str = DType.FLOAT32,
        *,
        accumulation: int = 1,
        autocast: DType | str | None = None,
        checkpointing: bool = False,
    ) -> ThroughputCase:
        """Build a case. Raises UsageError for an unknown word or an impossible combination."""
        found = member(Mode, mode, "mode")
        # The model case knows what a network's name, preset, norm and dtype may be.
        ModelCase.make(network, preset, norm, Pass.FORWARD, size, dtype)
        if len(size) != 2:
            raise UsageError(f"size {size!r} is not batch x tokens")
        if found is Mode.DECODE and size[1] < 4:
            raise UsageError(f"size {shape_text(size)} leaves nothing to decode: give 4 tokens or more, of which a quarter is written")
        if not isinstance(accumulation, int) or accumulation < 1:
            raise UsageError(f"accumulation {accumulation!r} must be a whole number of microbatches, at least 1")
        if found is not Mode.TRAIN and (accumulation > 1 or checkpointing):
            raise UsageError(f"mode {found.value!r} has no gradients: accumulation and checkpointing are for mode 'train'")
        narrow = None if autocast is None else member(DType, autocast, "autocast")
        if narrow is not None and (narrow is not DType.BFLOAT16 or DType(dtype) is not DType.FLOAT32):
            raise UsageError(f"autocast {narrow.value!r} over parameters of {dtype!s} is not measured: autocast bfloat16 over float32 is")
        return cls(
            network=network,
            preset=preset,
            norm=member(Norm, norm, "norm"),
            mode=found,
            dtype=member(DType, dtype, "dtype"),
            size=(size[0], size[1]),
            accumulation=accumulation,
            autocast=narrow,
            checkpointing=bool(checkpointing),
        )

    @property
    def tier(self) -> Tier:
        return Tier.THROUGHPUT

    @property
    def pass_(self) -> Pass:
        """Return what a call runs of the network: serving has no gradients."""
        return Pass.FORWARD_BACKWARD if self.mode is Mode.TRAIN else Pass.FORWARD

    @property
    def model_case(self) -> ModelCase:
        """Return the pass of the same network on the same batch that it is made of: what its norms are checked in."""
        return ModelCase.make(self.network, self.preset, self.norm, self.pass_, self.size, self.dtype)

    @property
    def prompt(self) -> int:
        """Return the tokens of each sequence that are there before a call: the positions a decode starts from, 0 otherwise."""
        return self.size[1] * _PROMPT_QUARTERS // 4 if self.mode is Mode.DECODE else 0

    @property
    def tokens(self) -> int:
        """Return the tokens that one call trains on, reads or writes."""
        batch, tokens = self.size
        return batch if self.mode is Mode.DECODE else batch * tokens * self.accumulation

    @property
    def metric(self) -> Metric:
        return tokens_metric(self.tokens)

    @property
    def options(self) -> tuple[str, ...]:
        """Return the parts of the id that say what differs from plain training or serving, e.g. `accumulate-4`."""
        parts = [f"accumulate-{self.accumulation}"] if self.accumulation > 1 else []
        parts += [f"autocast-{self.autocast.value}"] if self.autocast is not None else []
        return (*parts, "checkpointing") if self.checkpointing else tuple(parts)

    def _spell(self, norm: str) -> str:
        return "/".join([self.tier.value, self.label, norm, self.mode.value, self.shape_label, self.dtype.value, *self.options])

    @classmethod
    def from_id(cls, text: str) -> ThroughputCase:
        """Parse an id made by `id`. Raises UsageError naming the part that does not fit."""
        parts = text.split("/")
        if len(parts) < 6 or parts[0] != Tier.THROUGHPUT.value:
            raise UsageError(f"case id {text!r} is not of the form throughput/network-preset/norm/mode/size/dtype")
        _, label, norm, mode, size, dtype, *rest = parts
        network, preset = parsed_label(label, text)
        options = parsed_options(rest, text, _parse_option)
        try:
            return cls.make(network, preset, norm, mode, parsed_shape(size), dtype, **options)  # type: ignore[arg-type]
        except UsageError as error:
            raise UsageError(f"case id {text!r}: {error}") from None


def _parse_option(part: str, text: str) -> tuple[str, object]:
    """Return name and value of the argument of `ThroughputCase.make` that an optional part of the id `text` stands for."""
    if part == "checkpointing":
        return part, True
    if found := re.fullmatch(r"accumulate-([0-9]{1,6})", part):
        return "accumulation", int(found[1])
    if part.startswith("autocast-"):
        return "autocast", part.removeprefix("autocast-")
    raise UsageError(f"case id {text!r}: {part!r} is not a known part")
