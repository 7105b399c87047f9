"""A group that starts again keeps nothing of what was measured before."""

from __future__ import annotations

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.measure.block import BlockResult
from normbench.measure.group import Drafts, Group
from normbench.measure.rotating import Rotating
from normbench.records.measurement import Block, StopReason

GROUP = Group.of([Case.make("rms_norm", "forward", (4, 8), "float32")], Conditions(device="cuda", threads=1), ["aten", "faulty"])


def result(*arms: str, throttle: str | None = None) -> BlockResult:
    block = Block(started_at=0.0, inner=1, samples_s=((1e-5, 1e-5),))
    return BlockResult(timer="cuda_event", blocks=dict.fromkeys(arms, block), device_state={"throttle_reason": throttle})


def test_what_the_device_did_in_blocks_that_were_thrown_away_is_forgotten():
    drafts = Drafts(GROUP, 0)
    rotating = Rotating(GROUP, drafts, GROUP.names)
    rotating.add(result(*GROUP.names, throttle="power cap"), 1.0)
    aten = GROUP.names[0]
    rotating.restart((aten,))
    for _ in range(3):
        rotating.add(result(aten), 1.0)
    rotating.finish(StopReason.BLOCKS)
    assert drafts.device_states == [{"throttle_reason": None}] * 3
    assert {arm: len(found.blocks) for arm, found in drafts.measurements.items()} == {aten: 3}
