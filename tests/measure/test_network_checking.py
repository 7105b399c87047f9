"""The check of a network's arms in one process: right ones may be timed, wrong ones are told by how much. Run here without a server."""

import textwrap

import pytest
import torch

from normbench.cases.conditions import Conditions
from normbench.cases.model_case import ModelCase
from normbench.cases.throughput_case import ThroughputCase
from normbench.measure import network_checking, process
from normbench.measure.checking import Begun, CheckResult, CheckTask
from normbench.measure.network_checking import check_networks, emit_norm_calls
from normbench.models.networks import network
from normbench.records.record import NORM_CALLS, Status
from normbench.registry import Registry
from normbench.workloads import model as workload

CASES = {
    pass_: ModelCase.make("cnn", "tiny", "layer_norm", pass_, network("cnn").size("tiny")) for pass_ in ("forward", "forward_backward")
}

PROVIDERS = """
import torch
import torch.nn.functional as F
import normbench

def provider(**options):
    return lambda function: normbench.provider(function.__name__, norms=["layer_norm"], **options)(function)

@provider()
def without_weight(x, weight, bias, residual, eps):
    return F.layer_norm(x, x.shape[-1:], None, bias, eps)

@provider()
def without_centring(x, weight, bias, residual, eps):
    return F.rms_norm(x, x.shape[-1:], weight, eps) + bias

class NoGradientOfBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.save_for_backward(x, weight, bias)
        ctx.eps = eps
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)

    @staticmethod
    def backward(ctx, dy):
        x, weight, bias = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            dx, dweight, dbias = torch.autograd.grad(F.layer_norm(x, x.shape[-1:], weight, bias, ctx.eps), (x, weight, bias), dy)
        return dx, dweight, dbias * 1.01, None

@provider()
def wrong_backward(x, weight, bias, residual, eps):
    return NoGradientOfBias.apply(x, weight, bias, eps)

@provider()
def raises(x, weight, bias, residual, eps):
    raise ValueError("no kernel for this")

@provider(supports=lambda case, device: "only widths above 64" if case.cols <= 64 else None)
def only_wide(x, weight, bias, residual, eps):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)
"""
NAMES = ("without_weight", "without_centring", "wrong_backward", "raises", "only_wide")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    found = tmp_path_factory.mktemp("networks") / "network_providers.py"
    found.write_text(textwrap.dedent(PROVIDERS))
    return found


@pytest.fixture(autouse=True)
def here(path, monkeypatch, one_thread):
    """Stand in for a server's process: the providers loaded, and nothing of this process changed by a task."""
    registry = Registry()
    loaded = {f"{path}:{name}": registry.resolve(f"{path}:{name}") for name in NAMES}
    loaded |= {name: registry.resolve(name) for name in ("aten", "eager", "triton", "guide")}
    monkeypatch.setattr(process, "_providers", loaded)
    monkeypatch.setattr(network_checking, "prepare_process", lambda conditions, case, pages: torch.device("cpu"))
    yield
    workload.forget_networks()


def check(*arms, pass_="forward"):
    messages = []
    case = CASES[pass_]
    with torch.set_grad_enabled(case.pass_.has_backward):
        task = CheckTask(case=case, conditions=Conditions(device="cpu", threads=1), providers=arms, seed=0)
        check_networks(task, messages.append)
    assert [message.provider for message in messages if isinstance(message, Begun)] == [*arms, None]
    return {message.provider: message for message in messages if isinstance(message, CheckResult)}


@pytest.mark.parametrize("pass_", CASES)
def test_right_arms_of_both_norms_may_be_timed(pass_):
    results = check("layer_norm:aten", "layer_norm:eager", "rms_norm:aten", pass_=pass_)
    for name, result in results.items():
        assert (result.status, result.reason) == (Status.OK, None)
        assert result.first_call_s > 0
        assert result.memory.peak_bytes > 0
        assert (result.memory.saved_bytes is not None) is (pass_ == "forward_backward")
        output, *gradients = result.accuracy
        assert output.tensor == "output"
        assert len(gradients) == (1 if pass_ == "forward_backward" else 0)
        calls = result.settings[NORM_CALLS]
        assert sum(calls.values()) == 9
        assert all(case_id.startswith(f"op/{name.partition(':')[0]}/{pass_}/") for case_id in calls)


@pytest.mark.parametrize("name", ["without_weight", "without_centring"])
def test_a_norm_that_leaves_something_out_is_wrong(path, name):
    (result,) = check(f"layer_norm:{path}:{name}").values()
    assert result.status is Status.WRONG
    assert result.reason.startswith("output is off by ")
    assert not result.accuracy[0].passed
    assert result.accuracy[0].error > 100 * result.accuracy[0].tolerance


def test_a_wrong_gradient_is_seen_where_the_output_is_right(path):
    (result,) = check(f"layer_norm:{path}:wrong_backward", pass_="forward_backward").values()
    assert result.status is Status.WRONG
    assert "gradient of" in result.reason
    assert "bias" in result.reason
    assert [one.passed for one in result.accuracy] == [True, False]


def test_what_cannot_run_says_why_and_leaves_the_others_alone(path):
    results = check(
        f"layer_norm:{path}:raises",
        f"layer_norm:{path}:only_wide",
        f"rms_norm:{path}:only_wide",
        "layer_norm:triton",
        "rms_norm:guide",
        "layer_norm:aten",
    )
    told = {name.rpartition(":")[0] + ":" + name.rpartition(":")[2]: (one.status, one.reason) for name, one in results.items()}
    assert [status for status, _ in told.values()] == [
        Status.ERROR,
        Status.UNSUPPORTED,
        Status.UNSUPPORTED,
        Status.SKIPPED,
        Status.UNSUPPORTED,
        Status.OK,
    ]
    reasons = [reason for _, reason in told.values()]
    assert "no kernel for this" in reasons[0]
    assert "only widths above 64" in reasons[1]
    assert "has no rms_norm" in reasons[2]
    assert "not a GPU" in reasons[3]
    assert "another network" in reasons[4]


def test_norm_calls_come_with_their_case():
    messages = []
    emit_norm_calls((tuple(CASES.values()), "cpu"), messages.append)
    assert [case for case, _ in messages] == list(CASES.values())
    assert all(sum(calls.values()) == 9 for _, calls in messages)


TRAINING, CHEAPER = "train/2x16/float32", "train/2x16/float32/accumulate-2/autocast-bfloat16/checkpointing"
THROUGHPUT = (TRAINING, CHEAPER, "prefill/2x16/float32", "decode/2x16/float32")


def throughput_task(end, *providers):
    case = ThroughputCase.from_id(f"throughput/gpt2-tiny/layer_norm/{end}")
    arms = tuple(case.arm(provider) for provider in providers)
    return CheckTask(case=case, conditions=Conditions(device="cpu", threads=1), providers=arms, seed=1)


def throughput_results(end, *providers):
    messages = []
    task = throughput_task(end, *providers)
    with torch.set_grad_enabled(task.case.pass_.has_backward):
        check_networks(task, messages.append)
    return [message for message in messages if isinstance(message, CheckResult)]


@pytest.mark.parametrize("end", THROUGHPUT)
def test_training_and_serving_are_checked_as_they_are_timed(end, path):
    right, wrong = throughput_results(end, "aten", f"{path}:without_centring")
    assert (right.status, right.reason) == (Status.OK, None)
    assert right.memory.peak_bytes > 0
    assert (right.memory.saved_bytes is not None) == end.startswith("train")
    assert wrong.status is Status.WRONG


def test_checkpointing_keeps_less_for_backward():
    ((plain,), (again,)) = (throughput_results(f"train/2x64/float32{option}", "aten") for option in ("", "/checkpointing"))
    assert again.memory.saved_bytes < plain.memory.saved_bytes / 2


def test_a_cache_that_forgets_is_wrong(monkeypatch):
    def forgetful(case, model, tokens):
        # Each token as if it were the first of all.
        return torch.cat([model(input_ids=token).logits for token in torch.split(tokens[:, case.prompt :], 1, dim=1)], dim=1)

    task = throughput_task("decode/2x16/float32", "aten")
    with torch.no_grad():
        check = network_checking._Check(task, task.case, torch.device("cpu"))
        # How far the network strays by itself is found out with a right cache.
        check._own_stray()
        monkeypatch.setattr(network_checking, "served_logits", forgetful)
        assert check.result("layer_norm:aten").status is Status.WRONG
