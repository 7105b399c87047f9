"""The calls of a network's arms: the same parameters and inputs for all, other ones in every repetition, and norms that do run."""

import pytest
import torch

from normbench.cases.case import Case, Norm
from normbench.cases.model_case import ModelCase
from normbench.errors import UsageError
from normbench.models.networks import network
from normbench.models.norms import find_norms
from normbench.records.record import NO_NORM
from normbench.workloads import model as workload
from normbench.workloads.model import ModelWorkload, norm_calls, plain_network, split_arm, step_of, swapped_network

CPU = torch.device("cpu")
# Made of torch's own modules: nothing is imported for them. Nine norms in three widths, and norms called at every step.
CASES = {
    (name, pass_): ModelCase.make(name, "tiny", network(name).norm, pass_, network(name).size("tiny"))
    for name in ("cnn", "gru")
    for pass_ in ("forward", "forward_backward")
}
CNN, CNN_TRAINING = CASES["cnn", "forward"], CASES["cnn", "forward_backward"]
ARMS = ("layer_norm:aten", "layer_norm:eager", "rms_norm:aten")


@pytest.fixture(autouse=True)
def _here(one_thread):
    yield
    workload.forget_networks()


def repetition(case, arms=ARMS, seed=1):
    return ModelWorkload(case, arms, CPU).repetition(seed)


def test_an_arms_name_is_a_norm_and_a_provider():
    assert split_arm(CNN.arm("./my.py:kernel")) == (Norm.LAYER_NORM, "./my.py:kernel")


def test_arms_compute_the_same_function_when_only_the_provider_changes():
    with torch.no_grad():
        outputs = {name: call() for name, call in repetition(CNN).calls.items()}
    torch.testing.assert_close(outputs["layer_norm:aten"], outputs["layer_norm:eager"])
    assert not torch.allclose(outputs["layer_norm:aten"], outputs["rms_norm:aten"], atol=1e-3)


def test_arms_read_the_same_parameters_and_inputs_and_no_other_repetition_does(monkeypatch):
    seen = []
    monkeypatch.setattr(workload, "runs_without_norms", lambda case, device: False)
    monkeypatch.setattr(workload, "_call", lambda case, found, model, batch: seen.append((model, batch)))
    repetition(CNN)
    repetition(CNN)
    per_repetition = len(seen) // 2
    storages = [
        {parameter.data_ptr() for parameter in model.parameters()} | {tensor.data_ptr() for tensor in batch.values()}
        for model, batch in seen
    ]
    first, second = storages[:per_repetition], storages[per_repetition:]
    # An RMSNorm has no bias; all else is shared.
    assert first[0] == first[1]
    assert first[2] < first[0]
    assert not set.union(*first) & set.union(*second)
    for (one, batch), (other, again) in zip(seen[:per_repetition], seen[per_repetition:], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
        assert all(torch.equal(batch[name], again[name]) for name in batch)


def test_inputs_depend_on_the_seed_and_weights_do_not():
    with torch.no_grad():
        same, other = (repetition(CNN, ARMS[:1], seed).calls[ARMS[0]]() for seed in (1, 2))
        assert not torch.equal(same, other)
        assert torch.equal(same, repetition(CNN, ARMS[:1], 1).calls[ARMS[0]]())


def test_a_training_step_returns_every_gradient_and_leaves_none_behind():
    model = plain_network(CNN_TRAINING, CPU)
    found = network("cnn")
    batch = found.batch("tiny", seed=1)
    gradients = step_of(found, model, batch)()
    named = dict(model.named_parameters())
    assert len(gradients) == len(named)
    assert all(parameter.grad is None for parameter in named.values())
    found.loss(model, batch).backward()
    for gradient, parameter in zip(gradients, named.values(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


@pytest.mark.parametrize("pass_", ["forward", "forward_backward"])
def test_the_mode_is_that_of_the_pass(pass_):
    assert plain_network(CASES["cnn", pass_], CPU).training is (pass_ == "forward_backward")


def test_every_norm_of_an_arm_is_called_and_none_of_the_control():
    made = repetition(CNN)
    assert set(made.controls()) == {NO_NORM}
    with torch.no_grad():
        with_norms, without = made.calls["layer_norm:aten"](), made.controls()[NO_NORM]()
    assert without.isfinite().all()
    assert not torch.allclose(with_norms, without, atol=1e-3)
    with pytest.MonkeyPatch.context() as patch:
        # Whatever a norm computes now, the control does not see it.
        patch.setattr("torch.nn.functional.layer_norm", lambda x, *_: x * float("nan"))
        with torch.no_grad():
            assert torch.equal(made.controls()[NO_NORM](), without)


def test_there_is_no_control_where_a_network_needs_its_norms(monkeypatch):
    monkeypatch.setattr(workload, "_hand_on", lambda x, *_: x * float("inf"))
    assert repetition(CNN).controls() == {}


# Counted by hand: three norms at each resolution; two cells of the encoder over 16 steps and one of the decoder over 16.
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("cnn", {(2, 32, 32, 32): 3, (2, 16, 16, 64): 3, (2, 6, 6, 64): 3}),
        ("gru", {(8, 16, 512): 2, (8, 16, 256): 2, (8, 512): 64, (8, 256): 64}),
    ],
)
def test_norm_calls_are_cases_of_the_op_tier(name, counts):
    calls = norm_calls(CASES[name, "forward"], CPU)
    assert {case.shape: count for case, count in calls.items()} == counts
    for case in calls:
        assert Case.from_id(case.id) == case
        assert (case.norm, case.pass_.value, case.bias, case.eps) == (Norm.LAYER_NORM, "forward", True, 1e-5)


def test_norm_calls_of_a_swapped_norm_keep_the_networks_eps():
    swapped = ModelCase.make("cnn", "tiny", "rms_norm", "forward_backward", CNN.size)
    for case in norm_calls(swapped, CPU):
        assert (case.norm, case.pass_.value, case.bias, case.eps) == (Norm.RMS_NORM, "forward_backward", False, 1e-5)


def test_a_network_that_cannot_compute_in_its_dtype_is_refused(monkeypatch):
    def refuse(*_):
        raise RuntimeError("\"convolution\" not implemented for 'Half'")

    monkeypatch.setattr("torch.nn.functional.conv2d", refuse)
    monkeypatch.setattr(torch.nn.Conv2d, "_conv_forward", refuse)
    with pytest.raises(UsageError, match=r"cnn-tiny does not run in float32 on cpu: .*'Half'"):
        norm_calls(CNN, CPU)


def test_a_network_with_some_norms_left_is_no_arm():
    with pytest.raises(UsageError, match="triton"):
        swapped_network(plain_network(CNN, CPU), Norm.LAYER_NORM, "triton")


def test_the_kept_network_is_not_changed_by_its_arms():
    plain = plain_network(CNN, CPU)
    before = {found.name: found.norm for found in find_norms(plain)}
    values = [parameter.clone() for parameter in plain.parameters()]
    with torch.no_grad():
        for call in repetition(CNN).calls.values():
            call()
    assert {found.name: found.norm for found in find_norms(plain)} == before
    assert all(torch.equal(a, b) for a, b in zip(values, plain.parameters(), strict=True))
