"""Properties of the kernels over thousands of inputs: what they yield against float64, and to the bit where bits are promised."""

from dataclasses import replace

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from normbench.cases.adversary import Values
from normbench.oracle.check import check, describe_failure
from normbench.workloads.op import differentiable_inputs

from .inputs import inputs, memory_of, same_bits

tried = []


@pytest.fixture(autouse=True)
def report_inputs(record_property):
    tried.clear()
    yield
    record_property("inputs", len(tried))


def property_of(examples):
    """Try so many inputs, the same ones every time: a failure here is a failure for everyone."""
    return settings(max_examples=examples, derandomize=True, database=None, deadline=None, print_blob=False)


def require_same(found, wanted, why):
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert same_bits(found[name], tensor), f"{name}: {why}"


def run_and_require_right(entry):
    """Require the numbers of an input and that its memory is left alone; return its outputs."""
    tried.append(entry)
    problem = entry.problem(strided=True)
    before = memory_of(problem)
    outputs = entry.run(problem)
    (accuracies,) = check(problem.case, problem, {"triton": outputs}).values()
    assert describe_failure(accuracies) == ""
    for name, after in memory_of(problem).items():
        assert torch.equal(before[name], after), f"{name} or what lies between its rows was written to"
    assert all(tensor.is_contiguous() for tensor in outputs.values())
    return outputs


# A07 A08 A09 A10 A11 A13 A14 A15 A23 A24 A32 A33 A34 A37: their inputs are members of the kinds drawn here.


@given(entry=inputs("forward"))
@property_of(1530)
def test_forward_is_right_and_a_row_has_the_same_bits_alone_and_contiguous(entry):
    # A08, A38: neither strides nor the number of rows change the bits of a row.
    outputs = run_and_require_right(entry)
    case, contiguous = entry.case, entry.problem(strided=False)
    row = entry.seed % case.rows
    there = {name: tensor for name in ("x", "residual") if (tensor := getattr(contiguous, name)) is not None}
    alone = {name: tensor.reshape(case.rows, case.cols)[row] for name, tensor in there.items()}
    found = entry.run(replace(contiguous, case=msgspec.structs.replace(case, shape=(case.cols,)), **alone))
    require_same(found, {name: tensor.reshape(case.rows, case.cols)[row] for name, tensor in outputs.items()}, f"row {row} alone differs")


@given(entry=inputs("forward_backward"))
@property_of(330)
def test_forward_and_backward_are_right_and_have_the_same_bits_again_and_contiguous(entry):
    # A08, A34: where everything is contiguous the second run is the same one again.
    outputs = run_and_require_right(entry)
    require_same(outputs, entry.run(entry.problem(strided=False)), "strided differs from contiguous, or one run from the next")


@given(entry=inputs("forward_backward", values=[Values.NAN, Values.INFINITY], min_rows=2))
@property_of(60)
def test_rows_beside_a_bad_one_have_the_bits_that_they_have_without_it(entry):
    tried.append(entry)
    case = entry.case
    bad, good = entry.problem(strided=True), replace(entry, values=Values.NORMAL).problem(strided=True)
    untouched = bad.x.detach().reshape(case.rows, -1).isfinite().all(1)
    found, wanted = entry.run(bad), entry.run(good)
    for name in ("y", "residual_out", "dx", "dresidual"):
        if name in wanted:
            assert same_bits(found[name].reshape(case.rows, -1)[untouched], wanted[name].reshape(case.rows, -1)[untouched]), name


@given(entry=inputs("forward_backward"), data=st.data())
@property_of(80)
def test_any_set_of_gradients_has_the_bits_of_all_of_them(entry, data):
    # A35, and frozen weights: what is not asked for is left out, and nothing else changes.
    tried.append(entry)
    problem = entry.problem(strided=True)
    everything = entry.run(problem)
    wanted = data.draw(st.sets(st.sampled_from(sorted(differentiable_inputs(problem))), min_size=1))
    found = entry.run(problem, wanted=wanted)
    assert found.keys() - {"y", "residual_out"} == wanted
    require_same(found, {name: tensor for name, tensor in everything.items() if name in found}, f"only {sorted(wanted)} are asked for")
