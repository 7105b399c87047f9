"""A case of training or serving has one id and an id one case; what cannot be is refused with the part at fault."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.cases.case import DType, Norm, Pass, Tier
from normbench.cases.model_case import ModelCase
from normbench.cases.throughput_case import Mode, ThroughputCase
from normbench.errors import UsageError

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)


def case(mode="train", size=(2, 64), **options):
    return ThroughputCase.make("gpt2", "tiny", "rms_norm", mode, size, **options)


@st.composite
def cases(draw) -> ThroughputCase:
    """Draw any case that `ThroughputCase.make` accepts."""
    mode = draw(st.sampled_from(Mode))
    dtype = draw(st.sampled_from(DType))
    return ThroughputCase.make(
        draw(NAMES),
        draw(NAMES),
        draw(st.sampled_from(Norm)),
        mode,
        (draw(st.integers(1, 10**6)), draw(st.integers(4, 10**6))),
        dtype,
        accumulation=draw(st.integers(1, 999)) if mode is Mode.TRAIN else 1,
        autocast=draw(st.sampled_from([None, "bfloat16"])) if dtype is DType.FLOAT32 else None,
        checkpointing=draw(st.booleans()) if mode is Mode.TRAIN else False,
    )


@given(cases())
def test_case_comes_back_from_its_id_and_from_json(case):
    assert ThroughputCase.from_id(case.id) == case
    assert msgspec.json.decode(msgspec.json.encode(case), type=ThroughputCase) == case
    assert re.fullmatch(r"[A-Za-z0-9_/.+-]+", case.id)


# Ids are written into records that live longer than the code: these may never change.
def test_id_is_stable():
    assert case("decode", (16, 64)).id == "throughput/gpt2-tiny/rms_norm/decode/16x64/float32"
    full = case(accumulation=4, autocast="bfloat16", checkpointing=True)
    assert full.id == "throughput/gpt2-tiny/rms_norm/train/2x64/float32/accumulate-4/autocast-bfloat16/checkpointing"


@pytest.mark.parametrize(
    ("made", "tokens", "prompt"),
    [
        (case("train", (2, 64)), 128, 0),
        (case("train", (2, 64), accumulation=3), 384, 0),
        (case("prefill", (4, 64)), 256, 0),
        # One token of each sequence; three quarters of the positions are there before.
        (case("decode", (16, 64)), 16, 48),
        (case("decode", (1, 5)), 1, 3),
    ],
)
def test_tokens_are_those_that_a_call_trains_on_reads_or_writes(made, tokens, prompt):
    assert (made.tokens, made.prompt, made.metric.per_call) == (tokens, prompt, tokens)


def test_what_is_checked_is_the_pass_that_it_is_made_of():
    assert case("train").model_case == ModelCase.make("gpt2", "tiny", "rms_norm", Pass.FORWARD_BACKWARD, (2, 64))
    assert case("decode").model_case == ModelCase.make("gpt2", "tiny", "rms_norm", Pass.FORWARD, (2, 64))


def test_cases_that_differ_in_the_norm_alone_take_turns():
    one = case()
    other = msgspec.structs.replace(one, norm=Norm.LAYER_NORM)
    assert one.company == other.company
    assert one.arm("aten") != other.arm("aten")
    for field, value in {
        "mode": Mode.PREFILL,
        "size": (4, 64),
        "accumulation": 2,
        "autocast": DType.BFLOAT16,
        "checkpointing": True,
    }.items():
        assert msgspec.structs.replace(one, **{field: value}).company != one.company


def test_what_the_engine_asks_of_a_case_is_there():
    one = case()
    assert (one.tier, one.numel, one.is_empty, one.norm_label, one.shape_label) == (Tier.THROUGHPUT, 128, False, "rms_norm", "2x64")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("throughput/gpt2-tiny/rms_norm/train/2x64", "network-preset/norm/mode/size/dtype"),
        ("throughput/gpt2/rms_norm/train/2x64/float32", "'gpt2' is not a network and its preset"),
        ("throughput/gpt2-tiny/rms_norm/write/2x64/float32", "mode 'write' is unknown; known are train, prefill, decode"),
        ("throughput/gpt2-tiny/rms_norm/train/2x3x4/float32", "size \\(2, 3, 4\\) is not batch x tokens"),
        ("throughput/gpt2-tiny/rms_norm/train/0x64/float32", r"size \(0, 64\)"),
        ("throughput/gpt2-tiny/rms_norm/decode/2x3/float32", "size 2x3 leaves nothing to decode"),
        ("throughput/gpt2-tiny/rms_norm/train/2x64/float32/fast", "'fast' is not a known part"),
        ("throughput/gpt2-tiny/rms_norm/train/2x64/float32/accumulate-0", "accumulation 0 must be a whole number"),
        ("throughput/gpt2-tiny/rms_norm/train/2x64/float32/accumulate-2/accumulate-3", "contradicts or repeats"),
        ("throughput/gpt2-tiny/rms_norm/decode/2x64/float32/accumulate-2", "mode 'decode' has no gradients"),
        ("throughput/gpt2-tiny/rms_norm/prefill/2x64/float32/checkpointing", "mode 'prefill' has no gradients"),
        ("throughput/gpt2-tiny/rms_norm/train/2x64/bfloat16/autocast-bfloat16", "autocast 'bfloat16' over parameters of bfloat16"),
        ("throughput/gpt2-tiny/rms_norm/train/2x64/float32/autocast-float16", "autocast 'float16' over parameters of float32"),
    ],
)
def test_what_is_no_case_is_refused_with_the_part_at_fault(text, fault):
    with pytest.raises(UsageError, match=fault):
        ThroughputCase.from_id(text)
