"""A training step changes the network as AdamW on the averaged gradients of its microbatches does, however they are computed."""

import copy

import pytest
import torch

from normbench.cases.throughput_case import ThroughputCase
from normbench.errors import UsageError
from normbench.models.networks import network
from normbench.workloads.training import LEARNING_RATE, TrainingStep, autocast_of, microbatches, recompute_activations

CPU = torch.device("cpu")
GPT2 = network("gpt2")
FLOAT64 = torch.float64


pytestmark = pytest.mark.usefixtures("one_thread")


def case(size=(2, 64), dtype="float64", **options):
    return ThroughputCase.make("gpt2", "tiny", "layer_norm", "train", size, dtype, **options)


def step_on(model, batches, autocast=None):
    return TrainingStep(GPT2, model, batches, autocast=autocast_of(autocast, CPU))


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_a_step_is_that_of_adamw_on_the_loss_of_the_batch():
    (batch,) = microbatches(case(), GPT2, CPU, seed=1)
    ours, theirs = (GPT2.build("tiny", dtype=FLOAT64) for _ in range(2))
    loss = step_on(ours, [batch])()
    optimiser = torch.optim.AdamW(theirs.parameters(), lr=LEARNING_RATE)
    expected = GPT2.loss(theirs, batch)
    expected.backward()
    optimiser.step()
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(weights(ours), weights(theirs), rtol=0, atol=1e-12)
    assert all(parameter.grad is None for parameter in ours.parameters())


def test_microbatches_are_averaged_to_the_gradient_of_all_of_them():
    batches = microbatches(case(size=(1, 64), accumulation=4), GPT2, CPU, seed=1)
    whole = {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}
    model = GPT2.build("tiny", dtype=FLOAT64)
    seen = {}
    step = step_on(model, batches)
    step._optimiser.step = lambda: seen.update({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    step()
    GPT2.loss(model, whole).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(seen[name], parameter.grad, rtol=1e-9, atol=1e-12)


def test_microbatches_of_a_step_differ_and_depend_on_the_seed():
    first, again, other = (microbatches(case(accumulation=2), GPT2, CPU, seed=seed) for seed in (1, 1, 2))
    drawn = [batch["input_ids"] for batch in (*first, *other)]
    assert all(torch.equal(a["input_ids"], b["input_ids"]) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for number, a in enumerate(drawn) for b in drawn[number + 1 :])


def test_activations_that_are_computed_again_give_the_same_step():
    (batch,) = microbatches(case(), GPT2, CPU, seed=1)
    plain = GPT2.build("tiny", dtype=FLOAT64)
    again = copy.deepcopy(plain)
    recompute_activations(again, "gpt2-tiny")
    assert step_on(plain, [batch])() == step_on(again, [batch])()
    assert torch.equal(weights(plain), weights(again))


def test_under_autocast_the_output_is_narrow_and_parameters_stay_wide():
    (batch,) = microbatches(case(dtype="float32", autocast="bfloat16"), GPT2, CPU, seed=1)
    model = GPT2.build("tiny")
    seen = []
    model.lm_head.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    step_on(model, [batch], case(dtype="float32", autocast="bfloat16").autocast)()
    assert seen == [torch.bfloat16]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_thousands_of_steps_leave_the_weights_where_they_were_checked():
    # AdamW moves no weight by more than its rate in a step, but for decay.
    model = GPT2.build("tiny")
    before = weights(model)
    step = step_on(model, microbatches(case(dtype="float32"), GPT2, CPU, seed=1))
    for _ in range(3):
        step()
    moved = (weights(model) - before).abs().max()
    assert 0 < moved <= 3 * 1.1 * LEARNING_RATE


def test_gradients_are_exchanged_with_the_last_microbatch_alone():
    model = GPT2.build("tiny")
    calls = []

    class Wrapper(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model
            self.is_put_off = False

        def no_sync(self):
            wrapper = self

            class PutOff:
                def __enter__(self):
                    wrapper.is_put_off = True

                def __exit__(self, *exc_info):
                    wrapper.is_put_off = False

            return PutOff()

        def forward(self, **batch):
            calls.append(self.is_put_off)
            return self.inner(**batch)

    step_on(Wrapper(), microbatches(case(dtype="float32", accumulation=3), GPT2, CPU, seed=1))()
    assert calls == [True, True, False]


def test_a_network_that_cannot_compute_activations_again_is_refused():
    with pytest.raises(UsageError, match="gru-tiny knows no activation checkpointing"):
        recompute_activations(network("gru").build("tiny"), "gru-tiny")
