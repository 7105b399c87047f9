"""A case has one id and an id one case; what cannot be is refused with the part at fault."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.cases.case import Case, Convention, DType, Norm, Pass, Tier
from normbench.cases.conditions import Cache, Conditions, Pages, Parallel
from normbench.errors import UsageError


@st.composite
def cases(draw) -> Case:
    """Draw any case that `Case.make` accepts."""
    norm = draw(st.sampled_from(Norm))
    weight = draw(st.booleans())
    return Case.make(
        norm,
        draw(st.sampled_from(Pass)),
        tuple(draw(st.lists(st.integers(0, 2**40), min_size=1, max_size=5))),
        draw(st.sampled_from(DType)),
        residual=draw(st.booleans()),
        weight=weight,
        weight_dtype=draw(st.none() | st.sampled_from(DType)) if weight else None,
        bias=draw(st.none() | st.booleans()) if weight else None,
        eps=draw(st.none() | st.floats(0, allow_nan=False, allow_infinity=False)),
        convention=draw(st.sampled_from(Convention)) if norm is Norm.RMS_NORM else Convention.TORCH,
    )


@given(cases())
def test_case_comes_back_from_its_id(case):
    # So no two cases share an id either.
    again = Case.from_id(case.id)
    assert again == case
    assert again.id == case.id


@given(cases())
def test_case_comes_back_from_json(case):
    assert msgspec.json.decode(msgspec.json.encode(case), type=Case) == case


def test_json_names_the_tier_as_records_of_earlier_versions_do():
    case = Case.make("rms_norm", "forward", (8, 64), "float32")
    assert msgspec.json.decode(msgspec.json.encode(case))["tier"] == "op"
    assert case.tier is Tier.OP


@given(cases())
def test_id_needs_no_escape_in_a_pytest_id_or_a_shell(case):
    # pytest escapes what is not printable ASCII and splits at "::"; a shell at spaces, quotes, brackets and "$&;|<>*?".
    assert re.fullmatch(r"[A-Za-z0-9_/.+-]+", case.id)


# Ids are written into records and baselines that live longer than the code: these may never change.
@pytest.mark.parametrize(
    ("case_id", "case"),
    [
        # The plainest of each norm: all defaults are left out.
        ("op/rms_norm/forward/4x128x512/float32", Case.make("rms_norm", "forward", (4, 128, 512), "float32")),
        ("op/layer_norm/backward/8x64/bfloat16", Case.make("layer_norm", "backward", (8, 64), "bfloat16")),
        # A residual changes the name, as users write it.
        ("op/add_rms_norm/forward_backward/7/float16", Case.make("rms_norm", "forward_backward", (7,), "float16", residual=True)),
        # Each part that can be appended, alone.
        ("op/layer_norm/forward/8x64/float32/noweight", Case.make("layer_norm", "forward", (8, 64), "float32", weight=False)),
        ("op/layer_norm/forward/8x64/float32/nobias", Case.make("layer_norm", "forward", (8, 64), "float32", bias=False)),
        ("op/rms_norm/forward/8x64/float32/bias", Case.make("rms_norm", "forward", (8, 64), "float32", bias=True)),
        (
            "op/rms_norm/forward/8x64/bfloat16/w-float32",
            Case.make("rms_norm", "forward", (8, 64), "bfloat16", weight_dtype="float32"),
        ),
        ("op/rms_norm/forward/8x64/float32/eps-1e-05", Case.make("rms_norm", "forward", (8, 64), "float32", eps=1e-5)),
        ("op/rms_norm/forward/8x64/float32/eps-0.0", Case.make("rms_norm", "forward", (8, 64), "float32", eps=0)),
        ("op/rms_norm/forward/8x64/float32/llama", Case.make("rms_norm", "forward", (8, 64), "float32", convention="llama")),
        # All of them, in their order.
        (
            "op/add_rms_norm/forward/2x8/float64/w-float16/bias/eps-0.5/gemma",
            Case.make(
                "rms_norm",
                "forward",
                (2, 8),
                "float64",
                residual=True,
                weight_dtype="float16",
                bias=True,
                eps=0.5,
                convention="gemma",
            ),
        ),
        ("op/rms_norm/forward/0x64/float32", Case.make("rms_norm", "forward", (0, 64), "float32")),
    ],
)
def test_ids_are_stable(case_id, case):
    assert case.id == case_id
    assert Case.from_id(case_id) == case


# Someone may spell out a default; the case is the same, and its id the short one.
@pytest.mark.parametrize("part", ["bias", "w-float32", "eps-1e-05", "eps-0.00001"])
def test_defaults_are_left_out_of_the_id(part):
    plain = "op/layer_norm/forward/8x64/float32"
    assert Case.from_id(f"{plain}/{part}").id == plain


def test_defaults_are_those_in_common_use():
    layer_norm = Case.make("layer_norm", "forward", (2, 8), "bfloat16")
    assert (layer_norm.eps, layer_norm.bias, layer_norm.weight_dtype) == (1e-5, True, DType.BFLOAT16)
    rms_norm = Case.make("rms_norm", "forward", (2, 8), "float32")
    assert (rms_norm.eps, rms_norm.bias, rms_norm.weight_dtype) == (1e-6, False, DType.FLOAT32)
    assert not Case.make("layer_norm", "forward", (2, 8), "float32", weight=False).bias, "no bias without a weight"


def test_eps_of_negative_zero_is_zero():
    # -0.0 == 0.0, so two ids would name one case.
    assert Case.make("rms_norm", "forward", (8,), "float32", eps=-0.0).id.endswith("/eps-0.0")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "1 parts"),
        ("op/rms_norm/forward/8x64", "4 parts"),
        ("ops/rms_norm/forward/8x64/float32", "tier 'ops'"),
        # A network's id has another form.
        ("model/rms_norm/forward/8x64/float32", "tier 'model' is not 'op'"),
        ("op/batch_norm/forward/8x64/float32", "norm 'batch_norm'"),
        ("op/add_add_rms_norm/forward/8x64/float32", "norm 'add_rms_norm'"),
        ("op/rms_norm/forwards/8x64/float32", "pass 'forwards'"),
        ("op/rms_norm/forward/8x64/fp32", "dtype 'fp32'"),
        ("op/rms_norm/forward/8x64/float32/w-fp32", "weight dtype 'fp32'"),
        # Every way to get a shape wrong that a regular expression could let through.
        ("op/rms_norm/forward//float32", "''"),
        ("op/rms_norm/forward/8x/float32", "'8x'"),
        ("op/rms_norm/forward/-8x64/float32", "'-8x64'"),
        ("op/rms_norm/forward/8X64/float32", "'8X64'"),
        ("op/rms_norm/forward/\u0661x64/float32", "'\u0661x64'"),
        (f"op/rms_norm/forward/{'9' * 5000}/float32", "is not a shape"),
        ("op/rms_norm/forward/8x64/float32/fast", "'fast'"),
        ("op/rms_norm/forward/8x64/float32/eps-small", "'eps-small'"),
        ("op/rms_norm/forward/8x64/float32/eps-nan", "eps nan"),
        ("op/rms_norm/forward/8x64/float32/eps-inf", "eps inf"),
        ("op/rms_norm/forward/8x64/float32/eps--1.0", "eps -1.0"),
        # The same thing said twice: which one counts?
        ("op/rms_norm/forward/8x64/float32/bias/nobias", "'nobias'"),
        ("op/rms_norm/forward/8x64/float32/eps-1.0/eps-2.0", "'eps-2.0'"),
        ("op/rms_norm/forward/8x64/float32/llama/gemma", "'gemma'"),
        ("op/rms_norm/forward/8x64/float32/noweight/w-float16", "'float16' without a weight"),
        ("op/layer_norm/forward/8x64/float32/noweight/bias", "bias without a weight"),
        ("op/layer_norm/forward/8x64/float32/gemma", "'gemma' is defined for rms_norm only"),
    ],
)
def test_error_names_the_id_and_the_part_at_fault(text, fault):
    with pytest.raises(UsageError) as caught:
        Case.from_id(text)
    assert repr(text) in str(caught.value)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"shape": ()}, r"shape \(\)"),
        ({"shape": (4, -1)}, r"shape \(4, -1\)"),
        # A float would be part of the id as 4.0x8.
        ({"shape": (4.0, 8)}, "whole numbers"),
        ({"eps": -1e-6}, "eps -1e-06"),
        ({"eps": float("nan")}, "eps nan"),
        ({"eps": float("inf")}, "eps inf"),
        ({"bias": True, "weight": False}, "bias without a weight"),
        ({"weight": False, "weight_dtype": "float32"}, "'float32' without a weight"),
        ({"norm": "layer_norm", "convention": "llama"}, "'llama' is defined for rms_norm only"),
        ({"norm": "LayerNorm"}, "norm 'LayerNorm' is unknown; known are layer_norm, rms_norm"),
        ({"dtype": "int8"}, "dtype 'int8' is unknown; known are float64, float32, bfloat16, float16"),
        ({"convention": "t5"}, "convention 't5' is unknown"),
    ],
)
def test_impossible_case_is_refused(changes, fault):
    arguments = {"norm": "rms_norm", "pass_": "forward", "shape": (4, 8), "dtype": "float32"} | changes
    with pytest.raises(UsageError, match=fault):
        Case.make(**arguments)


# One dimension is a single row; an empty batch has no rows and keeps its width; a width of 0 has rows of nothing.
@pytest.mark.parametrize(
    ("shape", "rows", "cols", "is_empty"),
    [((4, 128, 512), 512, 512, False), ((7,), 1, 7, False), ((0, 64), 0, 64, True), ((3, 0), 3, 0, True)],
)
def test_rows_and_cols(shape, rows, cols, is_empty):
    case = Case.make("rms_norm", "forward", shape, "float32")
    assert (case.rows, case.cols, case.numel, case.is_empty) == (rows, cols, rows * cols, is_empty)


def test_passes_say_which_directions_they_have():
    directions = {pass_: (pass_.has_forward, pass_.has_backward) for pass_ in Pass}
    assert directions == {Pass.FORWARD: (True, False), Pass.BACKWARD: (False, True), Pass.FORWARD_BACKWARD: (True, True)}


def test_itemsize_is_that_of_torch():
    import torch

    assert {dtype: dtype.itemsize for dtype in DType} == {dtype: getattr(torch, dtype.value).itemsize for dtype in DType}


def test_case_is_hashable_and_cannot_be_changed():
    case = Case.make("rms_norm", "forward", (4, 8), "float32")
    assert {case: 1}[Case.from_id(case.id)] == 1
    with pytest.raises(AttributeError):
        case.eps = 0.0


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (Conditions(device="cpu", threads=2), "cpu/2t/warm/reused"),
        (Conditions(device="cuda:1", threads=8, cache=Cache.COLD, pages=Pages.FRESH), "cuda:1/8t/cold/fresh"),
    ],
)
def test_conditions_id_is_stable(conditions, expected):
    assert conditions.id == expected


def test_every_field_of_the_conditions_is_in_their_id():
    base = Conditions(device="cpu", threads=2)
    other = {"device": "cuda", "threads": 1, "cache": Cache.COLD, "pages": Pages.FRESH, "processes": 2, "parallel": Parallel.DDP}
    assert other.keys() == set(base.__struct_fields__)
    ids = {base.id} | {msgspec.structs.replace(base, **{name: value}).id for name, value in other.items()}
    assert len(ids) == 7
