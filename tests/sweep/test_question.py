"""A question names its arms, and what can never work is refused before anything is started."""

from __future__ import annotations

import pytest

from normbench.errors import UsageError
from normbench.sweep.question import make_cases, title_of

from .made import question

WORDS = {"networks": ["gpt2"], "preset": "tiny", "modes": ["train", "decode"], "norms": ["rms_norm"], "dtypes": ["float32"], "start": 2}


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


def test_options_of_training_are_for_training():
    train, decode = make_cases(**WORDS, accumulation=4, checkpointing=True, tokens=32)
    assert (train.size, train.accumulation, train.checkpointing) == ((2, 32), 4, True)
    assert (decode.size, decode.accumulation, decode.checkpointing) == ((2, 32), 1, False)
    assert title_of(train) == "gpt2-tiny train, 32 tokens, float32, accumulate-4, checkpointing"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"networks": ["vit"]}, "network 'vit' takes no tokens"),
        ({"networks": ["bert"], "modes": ["decode"]}, "writes no tokens one after the other"),
        ({"start": 0}, "start 0 is no batch"),
        ({"modes": ["fly"]}, "mode 'fly' is unknown"),
        ({"tokens": 10**6}, "fewer than the 1000000 tokens"),
    ],
)
def test_case_that_cannot_be_is_refused(change, why):
    with pytest.raises(UsageError, match=why):
        make_cases(**{**WORDS, **change})


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
