"""The calls of arms that train or serve: weights shared where nothing changes them, copies where training does, and norms that do run."""

import pytest
import torch

from normbench.cases.throughput_case import ThroughputCase
from normbench.errors import UsageError
from normbench.models.networks import network
from normbench.records.record import NO_NORM
from normbench.workloads import model as networks
from normbench.workloads.serving import Decoding, Prefill
from normbench.workloads.throughput import ThroughputWorkload, refuse_case, throughput_cases
from normbench.workloads.training import TrainingStep

CPU = torch.device("cpu")
ARMS = ("layer_norm:aten", "rms_norm:aten", "rms_norm:eager")
KINDS = {"train": TrainingStep, "prefill": Prefill, "decode": Decoding}


@pytest.fixture(autouse=True)
def _here(one_thread):
    yield
    networks.forget_networks()


def case(mode, name="gpt2", size=(2, 16), **options):
    return ThroughputCase.make(name, "tiny", "rms_norm", mode, size, **options)


def repetition(mode, seed=1, arms=ARMS, **options):
    return ThroughputWorkload(case(mode, **options), arms, CPU).repetition(seed)


def addresses(call):
    return {parameter.data_ptr() for parameter in call._model.parameters()}


@pytest.mark.parametrize("mode", KINDS)
def test_every_arm_and_the_network_without_norms_have_a_call_of_the_mode(mode):
    made = repetition(mode)
    assert tuple(made.calls) == ARMS
    assert tuple(made.controls()) == (NO_NORM,)
    assert {type(call) for call in (*made.calls.values(), *made.controls().values())} == {KINDS[mode]}


def test_turns_of_writing_begin_at_the_same_token_however_often_each_arm_was_called():
    made = repetition("decode")
    first = {arm: call() for arm, call in made.calls.items()}
    made.calls["rms_norm:aten"]()
    made.begin()
    assert all(torch.equal(call(), first[arm]) for arm, call in made.calls.items())
    assert {call._left for call in made.calls.values()} == {call._room - 1 for call in made.calls.values()}


def test_networks_are_there_before_the_first_repetition(monkeypatch):
    workload = ThroughputWorkload(case("train"), ARMS, CPU)
    workload.prepare()
    monkeypatch.setattr(networks, "swapped_network", lambda *asked: pytest.fail("made in a repetition"))
    workload.repetition(1)


def test_arms_that_serve_read_the_same_weights_and_no_other_repetition_does():
    first, second = (repetition("prefill").calls for _ in range(2))
    # An RMSNorm has no bias; all else is shared.
    assert addresses(first["rms_norm:aten"]) == addresses(first["rms_norm:eager"]) < addresses(first["layer_norm:aten"])
    assert not addresses(first["layer_norm:aten"]) & addresses(second["layer_norm:aten"])


def test_arms_that_train_change_weights_of_their_own():
    calls = repetition("train").calls
    assert not addresses(calls["rms_norm:aten"]) & addresses(calls["rms_norm:eager"])
    before = [parameter.detach().clone() for parameter in calls["rms_norm:eager"]._model.parameters()]
    calls["rms_norm:aten"]()
    assert all(torch.equal(one, other) for one, other in zip(before, calls["rms_norm:eager"]._model.parameters(), strict=True))


def test_what_goes_back_before_each_call_is_there_for_the_control_too():
    assert set(repetition("decode").restores) == {*ARMS, NO_NORM}
    assert not repetition("prefill").restores


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_norms_by_all_providers_serve_the_same_tokens(mode):
    with torch.no_grad():
        tokens = {name: call() for name, call in repetition(mode).calls.items()}
    assert torch.equal(tokens["rms_norm:aten"], tokens["rms_norm:eager"])


def test_a_step_takes_the_microbatches_that_are_asked_for_under_what_is_asked_for():
    call = repetition("train", accumulation=3, autocast="bfloat16", checkpointing=True).calls["rms_norm:aten"]
    assert len(call._batches) == 3
    assert call._autocast.fast_dtype is torch.bfloat16
    assert call._model.is_activation_checkpointing


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (case("train", "cnn"), "network 'cnn' takes no tokens"),
        (case("decode", "bert"), "network 'bert' writes no tokens one after the other"),
        (case("prefill", size=(1, 65)), "gpt2-tiny has 64 positions, fewer than the 65 tokens of size 1x65"),
        (case("train", "gpt5"), "network 'gpt5' is unknown"),
        (ThroughputCase.make("gpt2", "huge", "rms_norm", "train", (2, 16)), "no preset 'huge'"),
    ],
)
def test_what_a_network_cannot_do_is_refused(made, fault):
    with pytest.raises(UsageError, match=fault):
        refuse_case(made)


def test_all_other_networks_with_tokens_train():
    for name in ("bert", "t5", "transformer", "gru"):
        refuse_case(case("train", name, size=(2, 16) if name != "gru" else network(name).size("tiny")))


WORDS = {"networks": ["gpt2"], "preset": "tiny", "modes": ["train", "decode"], "norms": ["rms_norm"], "dtypes": ["float32"]}


def test_batches_that_are_not_named_are_the_presets_to_train_and_those_of_a_server():
    train, *decode = throughput_cases(**WORDS)
    assert (train.mode, train.size) == ("train", (2, 64))
    assert [(one.mode, one.size) for one in decode] == [("decode", (batch, 64)) for batch in (1, 4, 16, 64)]


def test_options_of_training_are_for_training():
    train, decode = throughput_cases(**WORDS, trained=[2], served=[3], accumulation=4, checkpointing=True, tokens=32)
    assert (train.size, train.accumulation, train.checkpointing) == ((2, 32), 4, True)
    assert (decode.size, decode.accumulation, decode.checkpointing) == ((3, 32), 1, False)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"networks": ["vit"]}, "network 'vit' takes no tokens"),
        ({"networks": ["bert"], "modes": ["decode"]}, "writes no tokens one after the other"),
        ({"trained": [0]}, r"size \(0, 64\) is not that of a batch"),
        ({"modes": ["fly"]}, "mode 'fly' is unknown"),
        ({"tokens": 10**6}, "fewer than the 1000000 tokens"),
    ],
)
def test_case_that_cannot_be_is_refused(change, why):
    with pytest.raises(UsageError, match=why):
        throughput_cases(**{**WORDS, **change})
