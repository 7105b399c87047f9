"""The check of a case in one process: trials, what calls must leave alone, and bits that must come again. Run here without a server."""

import sys
import textwrap

import pytest
import torch

from normbench.cases.adversary import Layout, Trial, Values
from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.errors import NormbenchError
from normbench.measure import checking, process
from normbench.measure.checking import Begun, CheckResult, CheckTask, Purpose, drained
from normbench.records.record import Status
from normbench.registry import Registry

CPU = Conditions(device="cpu", threads=1)
RMS = Case.make("rms_norm", "forward", (4, 8), "float32")
BACKWARD = Case.make("rms_norm", "forward_backward", (4, 8), "float32")

PROVIDERS = """
import torch
import torch.nn.functional as F
import normbench

prepared = []

def provider(**options):
    return lambda function: normbench.provider(function.__name__, norms=["rms_norm"], **options)(function)

def rms(x, weight, eps):
    return F.rms_norm(x, x.shape[-1:], weight, eps)

@provider(per_case=True)
def right(case):
    prepared.append(case)
    return lambda x, weight, bias, residual, eps: rms(x, weight, eps)

@provider()
def takes_all_rows_for_neighbours(x, weight, bias, residual, eps):
    # What a kernel does that is given a pointer and no strides.
    whole = torch.as_strided(x, (x.numel(),), (1,), x.storage_offset())
    return rms(whole.view(x.shape), weight, eps)

@provider()
def writes_beside(x, weight, bias, residual, eps):
    y = rms(x, weight, eps)
    if not x.is_contiguous():
        torch.as_strided(x.detach(), (1,), (1,), 0).fill_(0)
    return y

class OverwritesUpstream(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        ctx.eps = eps
        ctx.save_for_backward(x, weight)
        return rms(x, weight, eps)

    @staticmethod
    def backward(ctx, dy):
        x, weight = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            gradients = torch.autograd.grad(rms(x, weight, ctx.eps), (x, weight), dy)
        # Not dy.zero_(): PyTorch itself refuses to write to one element through many.
        torch.as_strided(dy, (1,), (1,), dy.storage_offset()).zero_()
        return (*gradients, None)

@provider()
def overwrites_upstream(x, weight, bias, residual, eps):
    return OverwritesUpstream.apply(x, weight, eps)

calls = 0

@provider()
def wavers(x, weight, bias, residual, eps):
    # One bit and back, well within what rounding explains.
    global calls
    calls += 1
    y = rms(x, weight, eps)
    return torch.nextafter(y, y + 1) if calls % 2 else y

@provider(mutates=["x"])
def in_place(x, weight, bias, residual, eps):
    x.copy_(rms(x, weight, eps))
    return x

@provider()
def only_normal(x, weight, bias, residual, eps):
    if not x.isfinite().all():
        raise ValueError("not a number")
    return rms(x, weight, eps)
"""


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    path = tmp_path_factory.mktemp("checked") / "checked_providers.py"
    path.write_text(textwrap.dedent(PROVIDERS))
    registry = Registry()
    return {name: registry.resolve(f"{path}:{name}") for name in NAMES}


@pytest.fixture(autouse=True)
def here(names, monkeypatch):
    """Stand in for a server's process: the providers loaded, and nothing of this process changed by a task."""
    monkeypatch.setattr(process, "_providers", names)
    monkeypatch.setattr(checking, "prepare_process", lambda conditions, case, pages: torch.device("cpu"))
    with torch.set_grad_enabled(True):
        yield


NAMES = [line.split("(")[0].removeprefix("def ") for line in PROVIDERS.splitlines() if line.startswith("def ") and "weight, bias" in line]
NAMES.append("right")

ORDINARY = (Trial(),)


def run(*providers, case=RMS, trials=ORDINARY, purpose=Purpose.VERDICT):
    messages = []
    task = CheckTask(case=case, conditions=CPU, providers=providers, seed=0, trials=trials, purpose=purpose)
    with torch.set_grad_enabled(case.pass_.has_backward):
        checking.check(task, messages.append)
    return [message for message in messages if isinstance(message, CheckResult)]


def one(*arguments, **options):
    (result,) = run(*arguments, **options)
    return result


def test_each_trial_is_checked_and_says_which_it_was():
    trials = tuple(Trial(values=values) for values in (Values.NORMAL, Values.LARGE_MEAN, Values.NAN))
    results = run("right", "only_normal", trials=trials)
    assert [(result.trial.values.value, result.provider, result.status.value) for result in results] == [
        ("normal", "right", "ok"),
        ("normal", "only_normal", "ok"),
        ("large_mean", "right", "ok"),
        ("large_mean", "only_normal", "ok"),
        ("nan", "only_normal", "error"),
        ("nan", "right", "ok"),
    ]
    assert results[4].reason == "ValueError: not a number"


def test_a_function_is_prepared_once_for_all_trials(names):
    prepared = sys.modules["_normbench_user_checked_providers"].prepared
    prepared.clear()
    run("right", trials=(Trial(), Trial(values=Values.HUGE), Trial(values=Values.TINY)))
    assert prepared == [RMS]


@pytest.mark.parametrize("layout", [layout for layout in Layout if layout.fits(BACKWARD)])
def test_every_layout_is_right_for_who_reads_strides(layout):
    assert one("right", case=BACKWARD, trials=(Trial(layout=layout),)).status is Status.OK


def test_strides_that_are_ignored_are_caught():
    # A08: what lies between the rows is NaN.
    assert one("takes_all_rows_for_neighbours").status is Status.OK
    sliced = one("takes_all_rows_for_neighbours", trials=(Trial(layout=Layout.SLICED),))
    assert sliced.status is Status.WRONG
    assert "not finite where the exact ones are" in sliced.reason


def test_neighbours_that_are_overwritten_are_told():
    # A08: k and v beside the q that is normalised. The first element of the storage lies before x.
    result = one("writes_beside", trials=(Trial(layout=Layout.SLICED),))
    assert result.status is Status.WRONG
    assert result.reason == "overwrites the memory around x: its strides are taken for those of a contiguous tensor"


# A07: as it is, and where all its elements are one.
@pytest.mark.parametrize("layout", [Layout.CONTIGUOUS, Layout.DY_EXPANDED, Layout.DY_STRIDED])
def test_upstream_gradients_that_are_overwritten_are_told_and_the_next_provider_has_them_whole(layout):
    faulty, right = run("overwrites_upstream", "right", case=BACKWARD, trials=(Trial(layout=layout),))
    assert faulty.status is Status.WRONG
    assert faulty.reason == "overwrites its input dy without saying so: leave it alone"
    assert right.status is Status.OK


@pytest.mark.parametrize("layout", [Layout.CONTIGUOUS, Layout.SLICED, Layout.TRANSPOSED])
def test_an_input_that_may_be_overwritten_is_given_as_it_lies(layout):
    results = run("in_place", "right", trials=(Trial(layout=layout),))
    assert {result.status for result in results} == {Status.OK}


def test_bits_that_change_from_call_to_call_are_told_and_are_no_fault_by_themselves():
    # A34: a sum of atomics is within its tolerance and another one each time.
    wavering, right = run("wavers", "right")
    assert (wavering.status, wavering.is_repeatable) == (Status.OK, False)
    assert (right.status, right.is_repeatable) == (Status.OK, True)


@pytest.mark.parametrize("values", [Values.NAN, Values.INFINITY])
def test_a_nan_is_a_bit_like_any_other(values):
    assert one("right", trials=(Trial(values=values),)).is_repeatable is True


def test_for_timing_memory_is_counted_and_nothing_is_repeated():
    result = one("right", purpose=Purpose.TIMING)
    # y has 4 x 8 elements of 4 bytes.
    assert result.memory.peak_bytes >= 128
    assert result.is_repeatable is None
    assert result.first_call_s > 0
    assert one("right").memory is None


@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (8, 1)], ids=["an element", "a row", "a column"])
@pytest.mark.parametrize("layout", Layout)
def test_single_elements_of_any_stride_are_looked_at(shape, layout):
    case = Case.make("rms_norm", "forward_backward", shape, "float32")
    if Trial(layout=layout).fits(case):
        assert one("right", case=case, trials=(Trial(layout=layout),)).status is Status.OK


def test_a_check_that_ends_early_leaves_its_results_and_who_was_at_work():
    result, failure = CheckResult(provider="a", status=Status.OK), NormbenchError("killed")

    def stream(*messages):
        yield from messages
        raise failure

    assert drained([Begun("a"), Begun(None), result]) == ([result], None, None)
    assert drained(stream(Begun("a"), result, Begun("b"))) == ([result], "b", failure)
    assert drained(stream(Begun("a"), Begun("b"), Begun(None), result)) == ([result], None, failure)
