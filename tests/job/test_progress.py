"""What is shown while a run goes on: finished cases as lines, and a bar that moves with every process."""

import re

import msgspec
import pytest
import synthetic

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.cases.throughput_case import ThroughputCase
from normbench.job.progress import Progress
from normbench.measure.group import Group
from normbench.measure.rotating import Live
from normbench.records.record import Status

GROUPS = [
    Group.of([Case.make(norm, "forward", (8, 64), "float32")], Conditions(device="cpu", threads=2), ("aten", "triton"))
    for norm in ("layer_norm", "rms_norm")
]


@pytest.fixture
def progress():
    with Progress() as progress:
        progress.started(GROUPS, 0)
        yield progress


def completed(progress):
    return progress._bar.tasks[0].completed


def test_the_bar_moves_with_every_block_and_is_full_when_all_is_done(progress):
    seen = []
    for blocks, share in ((1, 0.5), (2, 1.0)):
        for group in GROUPS:
            progress.block_done(Live(group=group, blocks=blocks, spent_s=1.0, share=share, time_s={"aten": 1e-3}))
            seen.append(completed(progress))
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)
    assert seen[-1] < len(GROUPS)
    for group in GROUPS:
        progress.group_done(group, [])
    assert completed(progress) == len(GROUPS)


def test_a_finished_case_is_a_line_with_times_and_with_what_was_not_timed(progress, capsys):
    group = GROUPS[0]
    records = [
        synthetic.record(group.case, "aten", time_s=1e-3),
        synthetic.record(group.case, "triton", status=Status.SKIPPED, reason="no GPU"),
    ]
    progress.group_done(group, records)
    line = capsys.readouterr().err
    assert "aten 1.0" in line
    assert "ms ±" in line
    assert "triton skipped" in line


def test_training_and_serving_are_told_in_tokens_per_second(progress, capsys):
    case = ThroughputCase.from_id("throughput/gpt2-tiny/rms_norm/decode/4x64/float32")
    group = Group.of([case], Conditions(device="cpu", threads=2), ("aten",))
    progress.block_done(Live(group=group, blocks=1, spent_s=1.0, share=0.5, time_s={"rms_norm:aten": 1e-3}))
    assert "rms_norm:aten 4000 tokens/s" in progress._bar.tasks[0].description
    progress.group_done(group, [msgspec.structs.replace(synthetic.record(case, "aten", time_s=1e-3), metric=case.metric)])
    assert re.search(r"rms_norm:aten \d+ tokens/s ±", capsys.readouterr().err)
