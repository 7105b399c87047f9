"""How far a conversion is off: against float64, for both methods, for all inputs."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from normbench import NormbenchError, UsageError
from normbench.models.deviation import first_tensor, measure_conversion
from normbench.models.toy import ToyLanguageModel

pytestmark = pytest.mark.usefixtures("one_thread")


def toy(dtype):
    torch.manual_seed(0)
    model = ToyLanguageModel(40, 16, 32, 2, 4)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=0.5, std=0.3)
    return model.to(dtype)


def tokens(seed):
    return {"tokens": torch.randint(0, 40, (2, 12), generator=torch.Generator().manual_seed(seed))}


def test_both_methods_are_measured_on_all_inputs_in_float64_and_in_the_models_dtype():
    found = measure_conversion(toy(torch.float32), {"random": tokens(0), "given": tokens(1)})
    by_place = {(one.inputs, one.dtype, one.method): one for one in found}
    assert len(by_place) == len(found)
    assert by_place.keys() == {
        (inputs, dtype, method)
        for inputs in ("random", "given")
        for dtype, method in (
            ("float64", "copied"),
            ("float64", "folded"),
            *(("float32", way) for way in ("unchanged", "copied", "folded")),
        )
    }
    for inputs in ("random", "given"):
        assert by_place[inputs, "float64", "folded"].relative < 1e-14
        assert by_place[inputs, "float64", "copied"].relative > 1e-2
        assert by_place[inputs, "float32", "copied"].relative == pytest.approx(by_place[inputs, "float64", "copied"].relative, rel=1e-3)
        # Stored in float32, a folded model is about as far off as the model itself.
        assert by_place[inputs, "float32", "folded"].relative < 5 * by_place[inputs, "float32", "unchanged"].relative


def test_pixels_come_in_the_dtype_that_the_model_has():
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4)).bfloat16()
    found = measure_conversion(model, {"given": {"input": torch.randn(3, 4)}})
    assert {one.dtype for one in found} == {"float64", "bfloat16"}


def test_a_model_in_float64_is_measured_once():
    assert {one.dtype for one in measure_conversion(toy(torch.float64), {"random": tokens(0)})} == {"float64"}


def test_the_figures_are_those_of_the_outputs_that_are_picked():
    model = nn.Sequential(nn.LayerNorm(2)).double()
    nn.init.constant_(model[0].bias, 1.0)
    # LayerNorm gives (1, -1) + 1 = (2, 0) and RMSNorm of (3, 1) alone (3, 1) / sqrt(5).
    copied, _ = measure_conversion(model, {"given": {"input": torch.tensor([[3.0, 1.0]])}}, lambda y: 10 * y)
    y, z = torch.tensor([20.0, 0.0], dtype=torch.float64), torch.tensor([30.0, 10.0], dtype=torch.float64) / 5**0.5
    assert copied.relative == pytest.approx(((z - y).norm() / 20).item(), rel=1e-4)
    assert copied.largest == pytest.approx((z - y).abs().max().item(), rel=1e-4)


def test_outputs_without_a_size_have_no_relative_difference():
    model = nn.Sequential(nn.LayerNorm(2)).double()
    copied, _ = measure_conversion(model, {"zeros": {"input": torch.zeros(1, 2)}})
    assert (copied.relative, copied.largest) == (None, 0.0)


def test_outputs_that_are_not_finite_are_refused():
    model = nn.Sequential(nn.LayerNorm(2)).double()
    with pytest.raises(NormbenchError, match="outputs for the given inputs are not finite"):
        measure_conversion(model, {"given": {"input": torch.tensor([[float("nan"), 1.0]])}})


@pytest.mark.parametrize(
    "batch", [{"words": torch.zeros(1, 2)}, {"tokens": torch.full((1, 2), 99)}, {"tokens": torch.zeros(1, 99, dtype=torch.int64)}]
)
def test_inputs_that_a_model_does_not_take_are_refused_naming_them(batch):
    with pytest.raises(UsageError, match=rf"ToyLanguageModel does not take the given inputs \({next(iter(batch))} \("):
        measure_conversion(toy(torch.float32), {"given": batch})


@pytest.mark.parametrize(
    "output",
    [
        torch.ones(1),
        SimpleNamespace(loss=None, logits=torch.ones(1)),
        SimpleNamespace(last_hidden_state=torch.ones(1)),
        (None, torch.ones(1), torch.zeros(1)),
        {"y": torch.ones(1)},
    ],
    ids=["tensor", "logits", "hidden", "tuple", "dict"],
)
def test_a_models_output_is_its_tensor_logits_hidden_state_or_first_value(output):
    assert torch.equal(first_tensor(output), torch.ones(1))


@pytest.mark.parametrize("output", [None, (), {"y": 1}])
def test_an_output_without_a_tensor_is_refused(output):
    with pytest.raises(UsageError, match="no tensor to compare"):
        first_tensor(output)
