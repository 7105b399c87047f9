"""From words to cases: what means nothing in a tier is refused, and what takes turns is together."""

import dataclasses

import msgspec
import pytest

from normbench.errors import UsageError
from normbench.job.request import Request, make_request
from normbench.text.choices import Choices

MODEL = Choices(tier="model", network="cnn,gru", provider="aten,eager", threads=1)


def request(choices=MODEL, **changes):
    return make_request(dataclasses.replace(choices, **changes), command=[])


def test_the_model_tier_is_every_network_and_pass_with_both_norms_in_turns():
    groups = request().groups()
    assert [group.case.company for group in groups] == [
        "model/cnn-tiny/norm/forward/2x3x32x32/float32",
        "model/cnn-tiny/norm/forward_backward/2x3x32x32/float32",
        "model/gru-tiny/norm/forward/8x16/float32",
        "model/gru-tiny/norm/forward_backward/8x16/float32",
    ]
    assert {group.names for group in groups} == {("layer_norm:aten", "layer_norm:eager", "rms_norm:aten", "rms_norm:eager")}


def test_without_names_all_networks_are_asked_for():
    from normbench.models.networks import networks

    assert {case.network for case in request(network="", norm="rms_norm").cases} == {one.name for one in networks()}


def test_ids_of_both_tiers_may_be_asked_for():
    ids = ["model/cnn-tiny/rms_norm/forward/2x3x32x32/float32", "op/rms_norm/forward/8x64/float32"]
    assert [case.id for case in request(Choices(case=",".join(ids), threads=1)).cases] == ids


def test_a_stored_request_is_read_again():
    for made in (request(), request(Choices(grid="8x64", threads=1))):
        assert msgspec.convert(msgspec.to_builtins(made), Request) == made
        assert msgspec.json.decode(msgspec.json.encode(made), type=Request) == made


THROUGHPUT = Choices(tier="throughput", provider="aten,eager", threads=1)


def test_the_throughput_tier_trains_and_serves_a_network_of_each_norm_at_several_loads():
    groups = request(THROUGHPUT).groups()
    expected = [
        f"throughput/{name}-tiny/norm/{mode}/{batch}x64/float32"
        for name in ("gpt2", "llama")
        for mode, batches in (("train", (2,)), ("prefill", (1, 4, 16, 64)), ("decode", (1, 4, 16, 64)))
        for batch in batches
    ]
    assert [group.case.company for group in groups] == expected
    assert {group.names for group in groups} == {("layer_norm:aten", "layer_norm:eager", "rms_norm:aten", "rms_norm:eager")}


def test_options_of_training_leave_serving_as_it_is():
    made = request(
        THROUGHPUT, network="gpt2", norm="rms_norm", batch="3", tokens=32, accumulation=2, checkpointing=True, autocast="bfloat16"
    )
    assert [case.id.removeprefix("throughput/gpt2-tiny/rms_norm/") for case in made.cases] == [
        "train/3x32/float32/accumulate-2/autocast-bfloat16/checkpointing",
        "prefill/3x32/float32/autocast-bfloat16",
        "decode/3x32/float32/autocast-bfloat16",
    ]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"accumulation": 4}, "accumulation 4"),
        ({"checkpointing": True}, "checkpointing"),
        ({"mode": "decode"}, "mode 'decode'"),
        ({"norm": "rms_norm"}, "norm 'rms_norm'"),
        ({"pass_": "forward"}, "pass 'forward'"),
        ({"tokens": 32}, "tokens 32"),
    ],
)
def test_words_that_make_cases_are_refused_beside_ids_that_say_it_all(changes, word):
    with pytest.raises(UsageError, match=f"{word} means nothing beside case"):
        request(Choices(case="throughput/gpt2-tiny/rms_norm/train/2x64/float32", threads=1), **changes)


def test_only_rates_are_sustained():
    assert request(THROUGHPUT, sustain=3.0).plan.sustain_s == 3.0
    assert request().plan.sustain_s == 0.0


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"network": "cnn"}, "network 'cnn' takes no tokens"),
        ({"network": "bert"}, "network 'bert' writes no tokens"),
        ({"mode": "serve"}, "mode 'serve' is unknown; known are train, prefill, decode"),
        ({"batch": "0"}, "batch '0' is not a whole number above 0"),
        ({"batch": "4,many"}, "batch 'many' is not a whole number above 0"),
        ({"tokens": 65}, "gpt2-tiny has 64 positions, fewer than the 65 tokens"),
        ({"accumulation": 0}, "accumulation 0 must be a whole number"),
        ({"pass_": "forward"}, "pass 'forward' means nothing in the throughput tier"),
        ({"grid": "quick"}, "grid 'quick' means nothing in the throughput tier"),
        ({"sustain": -1.0}, "sustain_s -1.0 must be a finite number of seconds"),
        ({"case": "throughput/bert-tiny/rms_norm/decode/2x64/float32"}, "network 'bert' writes no tokens"),
        ({"parallel": "fsdp"}, "parallel 'fsdp' needs several processes"),
        ({"mode": "decode", "global_batch": 8}, "global-batch 8 means nothing here: mode 'decode' trains nothing"),
        ({"case": "throughput/gpt2-tiny/rms_norm/train/2x64/float32", "global_batch": 8}, "case ids have batches of their own"),
        ({"mode": "decode", "accumulation": 4}, "accumulation 4 means nothing here: mode 'decode' trains nothing"),
        ({"mode": "prefill,decode", "checkpointing": True}, "checkpointing means nothing here: mode 'prefill,decode' trains nothing"),
    ],
)
def test_what_cannot_be_trained_or_served_is_refused(changes, fault):
    with pytest.raises(UsageError, match=fault):
        request(THROUGHPUT, **changes)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"tier": "modle"}, "tier 'modle' is unknown"),
        ({"network": "gpt5"}, "network 'gpt5' is unknown; known are gpt2"),
        ({"preset": "huge"}, "'huge'"),
        ({"norm": "add_rms_norm"}, "norm 'add_rms_norm' is unknown"),
        ({"pass_": "backward"}, "'backward' is not measured of a network"),
        ({"grid": "quick"}, "grid 'quick' means nothing in the model tier"),
        ({"weight_dtype": "float32"}, "weight-dtype 'float32' means nothing in the model tier"),
        ({"tier": "op"}, "network 'cnn,gru' means nothing in the op tier"),
        ({"case": "model/cnn-tiny/rms_norm/forward/4x3x32x32/float32"}, "cnn-tiny has the size 2x3x32x32, not 4x3x32x32"),
        ({"case": "model/gpt5-tiny/rms_norm/forward/2x64/float32"}, "network 'gpt5' is unknown"),
        ({"mode": "train"}, "mode 'train' means nothing in the model tier"),
        ({"batch": "4"}, "batch '4' means nothing in the model tier"),
        ({"sustain": 5.0}, "sustain 5.0 means nothing in the model tier"),
        ({"tier": "op", "network": "", "checkpointing": True}, "checkpointing means nothing in the op tier"),
    ],
)
def test_what_can_never_work_is_refused_with_the_word_at_fault(changes, fault):
    with pytest.raises(UsageError, match=fault):
        request(**changes)
