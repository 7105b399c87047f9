"""A network's case has one id and an id one case; what cannot be is refused with the part at fault."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.cases.case import DType, Norm, Tier
from normbench.cases.model_case import MODEL_PASSES, ModelCase
from normbench.errors import UsageError

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)
CASE = ModelCase.make("gpt2", "tiny", "rms_norm", "forward", (2, 64))


@st.composite
def cases(draw) -> ModelCase:
    """Draw any case that `ModelCase.make` accepts."""
    return ModelCase.make(
        draw(NAMES),
        draw(NAMES),
        draw(st.sampled_from(Norm)),
        draw(st.sampled_from(MODEL_PASSES)),
        tuple(draw(st.lists(st.integers(1, 10**6), min_size=1, max_size=4))),
        draw(st.sampled_from(DType)),
    )


@given(cases())
def test_case_comes_back_from_its_id_and_from_json(case):
    assert ModelCase.from_id(case.id) == case
    assert msgspec.json.decode(msgspec.json.encode(case), type=ModelCase) == case
    assert re.fullmatch(r"[A-Za-z0-9_/.+-]+", case.id)


# Ids are written into records that live longer than the code: these may never change.
def test_id_is_stable():
    assert CASE.id == "model/gpt2-tiny/rms_norm/forward/2x64/float32"
    other = ModelCase.make("deepseek_v2", "full", "layer_norm", "forward_backward", (1, 3, 32, 32), "bfloat16")
    assert other.id == "model/deepseek_v2-full/layer_norm/forward_backward/1x3x32x32/bfloat16"


def test_cases_that_differ_in_the_norm_alone_take_turns():
    other = msgspec.structs.replace(CASE, norm=Norm.LAYER_NORM)
    assert CASE.company == other.company
    assert CASE.arm("aten") != other.arm("aten")
    for field, value in {"network": "gpt3", "preset": "full", "size": (4, 64), "dtype": DType.BFLOAT16}.items():
        assert msgspec.structs.replace(CASE, **{field: value}).company != CASE.company


def test_what_the_engine_asks_of_a_case_is_there():
    assert (CASE.tier, CASE.numel, CASE.is_empty, CASE.norm_label, CASE.shape_label) == (Tier.MODEL, 128, False, "rms_norm", "2x64")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("model/gpt2-tiny/rms_norm/forward/2x64", "network-preset/norm/pass/size/dtype"),
        ("op/gpt2-tiny/rms_norm/forward/2x64/float32", "network-preset/norm/pass/size/dtype"),
        ("model/gpt2/rms_norm/forward/2x64/float32", "'gpt2' is not a network and its preset"),
        ("model/-tiny/rms_norm/forward/2x64/float32", "network '' is no name"),
        ("model/gpt2-tiny/batch_norm/forward/2x64/float32", "norm 'batch_norm'"),
        ("model/gpt2-tiny/rms_norm/backward/2x64/float32", "'backward' is not measured of a network"),
        ("model/gpt2-tiny/rms_norm/forward/2x/float32", "'2x' is not a shape"),
        ("model/gpt2-tiny/rms_norm/forward/0x64/float32", "numbers above 0"),
        ("model/gpt2-tiny/rms_norm/forward/2x64/fp32", "dtype 'fp32'"),
    ],
)
def test_error_names_the_id_and_the_part_at_fault(text, fault):
    with pytest.raises(UsageError) as caught:
        ModelCase.from_id(text)
    assert str(caught.value).count(repr(text)) == 1
    assert fault in str(caught.value)
