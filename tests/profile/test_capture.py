"""Real steps, watched: norms are told from the rest, forward and backward, and the model is left as it was."""

import json
import os

import pytest
import torch
from torch import nn
from torch.autograd.profiler_util import FunctionEvent
from torch.utils.checkpoint import checkpoint

import normbench.nn
from normbench.errors import NormbenchError, UsageError
from normbench.profile import norm_share
from normbench.profile.capture import _events, profile_step
from normbench.profile.costs import Phase
from normbench.profile.kinds import ModuleKind
from normbench.profile.parts import by_kind, norm_parts
from normbench.profile.summary import Basis

pytestmark = pytest.mark.usefixtures("one_thread")

X = torch.randn(64, 128)


def training(model, x=X):
    def step():
        model(x).pow(2).mean().backward()

    return step


def inference(model, x=X):
    def step():
        with torch.no_grad():
            model(x)

    return step


def mixed():
    return nn.Sequential(nn.Linear(128, 128), nn.LayerNorm(128), nn.Linear(128, 128), normbench.nn.RMSNorm(128, provider="eager"))


@pytest.mark.parametrize("backward", [False, True])
def test_a_network_of_nothing_but_norms_has_a_share_near_1(backward):
    # 512 KiB a tensor: a norm takes far longer than what lies between two, and no pages are given back to the system. There is no loss.
    model = nn.Sequential(*(nn.LayerNorm(512) for _ in range(16)))
    x, dy = torch.randn(256, 512), torch.randn(256, 512)
    share = norm_share(model, (lambda: model(x).backward(dy)) if backward else inference(model, x), repeats=7)
    # A busy machine takes its time from steps at random, 0.76 was seen; the forward alone would be about 0.4.
    assert 0.6 < share.share <= 1
    assert share.high is not None
    assert share.high > 0.8
    assert share.calls == 16


@pytest.mark.parametrize("step_of", [inference, training])
def test_a_network_without_norms_has_a_share_of_0(step_of):
    model = nn.Sequential(nn.Linear(128, 128), nn.Tanh())
    share = norm_share(model, step_of(model), repeats=2)
    assert (share.share, share.norm_s, share.calls) == (0, 0, 0)
    assert share.total_s > 0


def test_share_and_rest_are_the_whole():
    profile = profile_step(model := mixed(), training(model), steps=4)
    rest_s = sum(cost.host_s for cost in profile.costs if profile.kind(cost) is not ModuleKind.NORM)
    assert 0 < profile.norm.share < 1
    assert profile.norm.norm_s + rest_s == pytest.approx(profile.norm.total_s)
    assert sum(part.share for part in by_kind(profile)) == pytest.approx(1)
    assert profile.norm.basis is Basis.HOST


def test_every_backward_node_belongs_to_the_module_whose_forward_made_it():
    profile = profile_step(model := mixed(), training(model), steps=2)
    nodes = {(cost.module, cost.operator) for cost in profile.costs if cost.phase is Phase.BACKWARD and "Backward" in cost.operator}
    assert {(None, "MeanBackward0"), ("0", "AddmmBackward0"), ("1", "NativeLayerNormBackward0"), ("2", "AddmmBackward0")} <= nodes
    # An RMSNorm of single operators: each of their nodes is its own.
    assert {("3", "RsqrtBackward0"), ("3", "MulBackward0"), ("3", "MeanBackward1")} <= nodes
    assert not any(module in ("0", "2") for module, operator in nodes if "Rsqrt" in operator or "LayerNorm" in operator)


def test_gradients_are_added_up_by_the_module_that_has_the_parameter():
    profile = profile_step(model := mixed(), training(model), steps=2)
    added = {cost.module: cost.calls for cost in profile.costs if cost.operator == "torch::autograd::AccumulateGrad"}
    # The input has no gradient; each linear and LayerNorm has a weight and a bias, the RMSNorm a weight.
    assert added == {"0": 2, "1": 2, "2": 2, "3": 1}


def test_norms_of_a_function_with_a_backward_of_its_own_are_seen():
    class Halve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.nn.functional.layer_norm(x, x.shape[-1:])

        @staticmethod
        def backward(ctx, dy):
            return dy.mul(0.5)

    class OwnNorm(nn.LayerNorm):
        def forward(self, x):
            return Halve.apply(x)

    model = nn.Sequential(nn.Linear(128, 128), OwnNorm(128, elementwise_affine=False))
    profile = profile_step(model, training(model), steps=2)
    assert {"HalveBackward", "aten::mul"} <= {
        cost.operator for cost in profile.costs if cost.module == "1" and cost.phase is Phase.BACKWARD
    }


def test_what_a_checkpoint_recomputes_belongs_to_the_module_again():
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = mixed()

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    model = Checkpointed()
    profile = profile_step(model, training(model, X.clone().requires_grad_()), steps=2)
    again = {cost.module for cost in profile.costs if cost.operator == "aten::native_layer_norm" and cost.phase is Phase.BACKWARD}
    assert again == {"inner.1"}
    nodes = {cost.module for cost in profile.costs if cost.operator == "NativeLayerNormBackward0"}
    assert nodes == {"inner.1"}


def test_the_shapes_of_norms_are_those_they_are_called_with():
    profile = profile_step(model := mixed(), inference(model), steps=2)
    assert [(one.part.name, one.norm, one.shapes, one.dtypes) for one in norm_parts(profile)] == [
        ("*", "layer_norm, rms_norm", ("64x128",), ("float32",))
    ]
    (layer_norm,), (rms_norm,) = profile.modules["1"].norm_cases, profile.modules["3"].norm_cases
    assert layer_norm.id == "op/layer_norm/forward/64x128/float32"
    assert rms_norm.id.startswith("op/rms_norm/forward/64x128/float32/eps-")


def test_afterwards_the_model_is_as_it_was():
    model = mixed()
    before = [name for name in os.environ if name.startswith("KINETO")]
    profile_step(model, training(model), steps=1)
    for module in model.modules():
        assert "forward" not in vars(module)
        assert not module._forward_pre_hooks
    assert all(parameter.grad is None for parameter in model.parameters())
    assert [name for name in os.environ if name.startswith("KINETO")] == before


def test_nothing_is_written_to_stderr(capfd):
    profile_step(model := mixed(), inference(model), steps=1)
    assert capfd.readouterr().err == ""


def test_the_trace_is_json_that_names_modules_and_operators(tmp_path):
    profile_step(model := mixed(), training(model), steps=1, trace=tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    complete = {event["name"] for event in events if event.get("ph") == "X" and event["dur"] >= 0}
    assert {"normbench: step", "module: Sequential", "module: 1", "aten::native_layer_norm", "NativeLayerNormBackward0"} <= complete


def test_a_trace_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(NormbenchError, match=r"none.*trace\.json"):
        profile_step(model := mixed(), inference(model), steps=1, trace=tmp_path / "none" / "trace.json")


def test_a_compiled_network_hides_its_norms_and_gets_no_share():
    model = mixed()
    hidden = torch.compile(model, backend="eager")
    with pytest.raises(NormbenchError, match=r"none of the 2 norms .* uncompiled"):
        norm_share(hidden, inference(hidden), repeats=1)


def test_a_step_that_fails_fails_as_it_would_without_the_profiler():
    model = mixed()
    with pytest.raises(RuntimeError, match="shapes"):
        norm_share(model, inference(model, torch.ones(2, 3)), repeats=1)
    assert all("forward" not in vars(module) and not module._forward_pre_hooks for module in model.modules())


def test_a_profile_needs_a_step():
    with pytest.raises(UsageError, match="steps 0"):
        profile_step(model := mixed(), inference(model), steps=0)


class Recorded:
    """Stand in for a profiler of a GPU: events with what the profiler of this version says of each."""

    def __init__(self, *events):
        self._events = events

    def events(self):
        return self._events


def recorded(name, start_us, end_us, *, kernels=(), thread=1, sequence=-1, device=torch.autograd.DeviceType.CPU):
    event = FunctionEvent(1, name, thread, start_us, end_us, fwd_thread=1, sequence_nr=sequence, device_type=device)
    for kernel, time_us in kernels:
        event.append_kernel(kernel, 0, time_us)
    return event


def test_kernels_are_those_of_the_operator_that_launched_them_and_ranges_are_none():
    profiler = Recorded(
        recorded("normbench: step", 0, 100, kernels=[("normbench: step", 90)]),
        recorded("module: 1", 10, 60, kernels=[("module: 1", 30), ("triton_kernel", 5)]),
        recorded("aten::native_layer_norm", 20, 50, kernels=[("vectorized_layer_norm_kernel", 7)], sequence=4),
        recorded("cudaLaunchKernel", 30, 40),
        recorded("vectorized_layer_norm_kernel", 35, 42, device=torch.autograd.DeviceType.CUDA),
        recorded("autograd::engine::evaluate_function: NativeLayerNormBackward0", 70, 90, thread=2, sequence=4),
    )
    step, module, operator, launch, node = _events(profiler, {"module: 1": "1"})
    assert [event.kind.value for event in (step, module, operator, launch, node)] == ["step", "module", "operator", "runtime", "node"]
    assert (module.name, [kernel.name for kernel in module.kernels], step.kernels) == ("1", ["triton_kernel"], ())
    assert [kernel.time_s for kernel in operator.kernels] == [pytest.approx(7e-6)]
    assert (operator.start_s, operator.sequence, launch.sequence) == (pytest.approx(20e-6), 4, None)
    assert (node.name, node.thread, node.forward_thread, node.sequence) == ("NativeLayerNormBackward0", 2, 1, 4)
