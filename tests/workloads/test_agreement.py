"""How far an arm may stray: what the network's own rounding explains passes, and every classic fault of a norm does not."""

import pytest
import torch
from torch import nn

from normbench.workloads.agreement import FACTOR, Stray, judge, outcome, stray

EXACT = {
    "output": torch.linspace(1, 2, 100, dtype=torch.float64),
    "weight": torch.linspace(1, 2, 100, dtype=torch.float64),
    # Zero but for rounding, as the bias of keys in front of a softmax.
    "bias": torch.full((100,), 1e-17, dtype=torch.float64),
}
PLAIN = Stray(output=1e-6, gradient=1e-6)


def strayed(**by):
    """Return the exact values, each changed by so much of its size."""
    return {name: (value * (1 + by.get(name, 0.0))).float() for name, value in EXACT.items()}


def test_a_stray_is_relative_and_that_of_gradients_is_the_worst():
    found = stray(strayed(output=1e-3, weight=2e-3), EXACT)
    assert found.output == pytest.approx(1e-3, rel=1e-2)
    # Beside its own size stands that of an average gradient: here half the parameters have none.
    assert found.gradient == pytest.approx(2e-3 / (1 + 0.5**0.5), rel=1e-2)


def test_a_gradient_that_is_zero_but_for_rounding_is_measured_by_the_others():
    values = strayed() | {"bias": torch.full((100,), 1e-8)}
    assert stray(values, EXACT).gradient < 1e-7


def test_what_the_networks_own_rounding_explains_passes():
    accuracy = judge(strayed(output=0.9 * FACTOR * 1e-6, weight=0.9 * FACTOR * 1e-6), EXACT, PLAIN, torch.float32)
    assert [one.tensor for one in accuracy] == ["output", "gradient of weight, the worst of 2"]
    assert all(one.passed for one in accuracy)
    assert accuracy[0].tolerance == pytest.approx(FACTOR * 1e-6)
    assert accuracy[0].relative == pytest.approx(0.9 * FACTOR * 1e-6, rel=0.05)


@pytest.mark.parametrize("name", ["output", "weight"])
def test_what_it_does_not_explain_is_wrong(name):
    accuracy = judge(strayed(**{name: 1e-4}), EXACT, PLAIN, torch.float32)
    assert [one.passed for one in accuracy] == [name != "output", name != "weight"]


def test_what_is_missing_or_not_finite_is_wrong_and_has_no_figure():
    missing = judge(strayed() | {"weight": None}, EXACT, PLAIN, torch.float32)[1]
    assert (missing.passed, missing.error, missing.fault) == (False, None, "is missing or has another shape")
    nan = judge(strayed() | {"output": torch.full((100,), float("nan"))}, EXACT, PLAIN, torch.float32)[0]
    assert (nan.passed, nan.error, nan.max_abs, nan.nonfinite) == (False, None, None, 100)


def test_a_network_that_hardly_rounds_is_not_held_to_nothing():
    accuracy = judge(strayed(output=1e-7), EXACT, Stray(output=0.0, gradient=0.0), torch.float32)
    assert accuracy[0].passed


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.unused = nn.Linear(4, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x)


class SmallNetwork:
    def outputs(self, model, batch):
        return model(batch["x"])

    def loss(self, model, batch):
        return self.outputs(model, batch).square().mean()


def test_an_outcome_is_the_output_and_every_gradient_by_name():
    model, batch = Small(), {"x": torch.ones(3, 4)}
    assert set(outcome(SmallNetwork(), model, batch, has_backward=False)) == {"output"}
    values = outcome(SmallNetwork(), model, batch, has_backward=True)
    assert set(values) == {"output", *dict(model.named_parameters())}
    assert values["unused.weight"] is None
    assert not values["output"].requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
    # A gradient of zero and none at all are the same.
    assert stray(values, {name: None if value is None else value.double() for name, value in values.items()}).gradient < 1e-7
