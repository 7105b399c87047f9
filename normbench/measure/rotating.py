"""A group while it is measured in rotation with others: the blocks so far, and how it stands."""

from __future__ import annotations

import msgspec

from ..quantities.stats import block_log_medians, time_interval
from ..records.measurement import Block, Measurement, StopReason
from .block import BlockResult
from .group import Drafts, Group
from .plan import Plan

__all__ = ["Live", "Rotating"]


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """Tell how a group stands after another block: how many blocks, what part of the budget is spent (1 at most), and the time of one
    call so far by arm, in seconds.
    """

    group: Group
    blocks: int
    spent_s: float
    share: float
    time_s: dict[str, float]


class Rotating:
    """Hold a group that is being measured, and what was measured of it so far."""

    def __init__(self, group: Group, drafts: Drafts, timed: tuple[str, ...]) -> None:
        self.group = group
        self.drafts = drafts
        self.restart(timed)

    def restart(self, timed: tuple[str, ...]) -> None:
        """Forget what was measured, and go on with these arms."""
        self.timed = timed
        self.count = 0
        self.spent_s = 0.0
        self._timer = ""
        self.drafts.device_states.clear()
        self._blocks: dict[str, list[Block]] = {}

    def add(self, result: BlockResult, seconds: float) -> None:
        self.count += 1
        self.spent_s += seconds
        self._timer = result.timer
        for arm, block in result.blocks.items():
            self._blocks.setdefault(arm, []).append(block)
        if result.device_state is not None:
            self.drafts.device_states.append(result.device_state)

    def _measurement(self, arm: str, stop: StopReason) -> Measurement:
        return Measurement(timer=self._timer, blocks=tuple(self._blocks[arm]), stop=stop)

    def log_medians(self) -> dict[str, list[float]]:
        return {name: block_log_medians(self._measurement(name, StopReason.BLOCKS)) for name in self.timed}

    def live(self, plan: Plan) -> Live:
        times = {name: time_interval(self._measurement(name, StopReason.BLOCKS)).estimate for name in self.timed}
        share = min(1.0, max(self.spent_s / plan.budget_s, self.count / plan.max_blocks))
        return Live(group=self.group, blocks=self.count, spent_s=self.spent_s, share=share, time_s=times)

    def finish(self, stop: StopReason) -> None:
        self.drafts.measurements = {arm: self._measurement(arm, stop) for arm in self._blocks}
