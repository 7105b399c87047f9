"""A question names its arms, and what can never work is refused before anything is started."""

from __future__ import annotations

import pytest

from normbench.cases.throughput_case import ThroughputCase
from normbench.errors import UsageError
from normbench.sweep.question import title_of

from .made import question


def test_companies_differ_in_more_than_norm_and_provider():
    companies = question(modes=("train", "decode")).companies
    assert len(companies) == 2
    for arms in companies.values():
        assert [arm.name for arm in arms] == ["layer_norm:eager", "layer_norm:aten", "rms_norm:eager", "rms_norm:aten"]
    keys = [arm.key for arms in companies.values() for arm in arms]
    assert len(set(keys)) == len(keys)
    assert keys[0] == "throughput/gpt2-tiny/layer_norm/train/1x64/float32#eager"


def test_arm_at_another_batch_differs_in_nothing_else():
    arm = next(iter(question().companies.values()))[0]
    assert arm.at(24).size == (24, 64)
    assert arm.at(1) == arm.case


def test_title_says_what_a_case_shares_with_those_of_other_norms_and_batches():
    case = ThroughputCase.make("gpt2", "tiny", "rms_norm", "train", (2, 32), accumulation=4, checkpointing=True)
    assert title_of(case) == "gpt2-tiny train, 32 tokens, float32, accumulate-4, checkpointing"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"providers": ()}, "no provider"),
        ({"providers": ("aten", "aten")}, "name one twice"),
        ({"norms": ()}, "nothing to sweep"),
        ({"most": 0}, "most 0 is below start 1"),
        ({"budget_s": 0.0}, "budget_s 0.0"),
        ({"resolution": 2.0}, "resolution 2"),
    ],
)
def test_question_that_cannot_be_answered_is_refused(change, why):
    with pytest.raises(UsageError, match=why):
        question(**change).validate()
