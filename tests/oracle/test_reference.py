"""The oracle: against numbers worked by hand, against PyTorch's own differentiation in float64, and in pieces against the whole."""

import pytest
import torch
import torch.nn.functional as F
from handmade import exact, outputs_by, problem_of
from hypothesis import given, settings
from hypothesis import strategies as st

from normbench.cases.adversary import Layout, Trial, Values
from normbench.cases.case import Case, DType
from normbench.oracle import reference
from normbench.oracle.problem import make_problem
from normbench.oracle.reference import TOLERANCES, Oracle

pytestmark = pytest.mark.usefixtures("one_thread")


def forward(norm, x, *, dtype="float64", weight=None, bias=None, residual=None, **options):
    """Return the oracle's y of a few numbers."""
    x = torch.tensor(x, dtype=getattr(torch, dtype))
    case = Case.make(norm, "forward", tuple(x.shape), dtype, weight=weight is not None, bias=bias is not None, **options)
    as_columns = [None if v is None else torch.tensor(v, dtype=x.dtype) for v in (weight, bias)]
    return exact(problem_of(case, x=x, weight=as_columns[0], bias=as_columns[1]))["y"]


def test_layer_norm_centres_and_scales():
    # A09.
    # 1, 2, 3 have variance 2/3, so the ends are at sqrt(3/2); a mean of 1002 changes nothing.
    assert forward("layer_norm", [[1001, 1002, 1003]], eps=0).tolist()[0] == pytest.approx([-(1.5**0.5), 0, 1.5**0.5])


def test_layer_norm_keeps_a_small_spread_beside_a_large_mean():
    # A24.
    y = forward("layer_norm", [[40000, 40001, 40002, 40003]], dtype="float32", eps=1e-5)
    assert y.tolist()[0] == pytest.approx([-1.3416, -0.4472, 0.4472, 1.3416], abs=1e-4)


def test_a_constant_row_is_its_bias_exactly():
    # A24.
    y = forward("layer_norm", [[1234.0] * 256], dtype="float32", weight=[2.0] * 256, bias=[0.25] * 256)
    assert (y == 0.25).all()


def test_eps_is_added_inside_the_root():
    # A13.
    # mean(x^2) = 1e-6 = eps: 1e-3 / sqrt(2e-6). Outside the root it would be 1e-3 / (1e-3 + 1e-6) = 0.9990.
    assert forward("rms_norm", [[1e-3] * 10], eps=1e-6).tolist()[0] == pytest.approx([0.5**0.5] * 10)


def test_a_row_of_zeros_is_zero_with_an_eps_below_float16():
    # A13.
    assert (forward("layer_norm", [[0.0] * 10], dtype="float16", eps=1e-12) == 0).all()


def test_squares_past_the_range_of_float16_do_not_overflow():
    # A23.
    assert forward("rms_norm", [[1000.0] * 64], dtype="float16", eps=1e-6).tolist()[0] == pytest.approx([1.0] * 64)


def test_gemma_adds_1_to_the_weight_in_full_precision():
    # A11.
    # In bfloat16 15.8125 + 1 would be 16.75.
    y = forward("rms_norm", [[1.0]], dtype="bfloat16", weight=[15.8125], eps=0, convention="gemma")
    assert y.item() == 16.8125


def test_gemma_with_a_weight_of_zero_is_no_weight():
    # A11.
    assert forward("rms_norm", [[3.0, 4.0]], weight=[0.0, 0.0], eps=0, convention="gemma").tolist()[0] == pytest.approx(
        [3 / 12.5**0.5, 4 / 12.5**0.5]
    )


def test_llama_rounds_before_it_multiplies():
    # A10.
    case = Case.make("rms_norm", "forward", (1, 4096), "bfloat16", convention="llama")
    problem = make_problem(case, device="cpu", seed=0)
    wide = problem.x.double()
    xhat = wide / (wide.square().mean(-1, keepdim=True) + case.eps).sqrt()
    assert torch.equal(exact(problem)["y"], xhat.bfloat16().double() * problem.weight.double())


def test_the_residual_is_added_and_rounded_once_before_the_norm_reads_it():
    # A15.
    # 256 + 0.75 needs 10 bits, bfloat16 has 8 and rounds it to 256: the second element then is like the first.
    case = Case.make("rms_norm", "forward", (1, 2), "bfloat16", residual=True, weight=False, eps=0)
    x, residual = torch.tensor([[256.0, 256.0]], dtype=torch.bfloat16), torch.tensor([[0.0, 0.75]], dtype=torch.bfloat16)
    values = exact(problem_of(case, x=x, residual=residual))
    assert values["residual_out"].tolist() == [[256.0, 256.0]]
    assert values["y"].tolist() == [[1.0, 1.0]]


def test_a_row_of_zeros_has_a_finite_gradient_and_leaves_other_rows_alone():
    # A37.
    # rstd is 1/sqrt(1e-6) = 1000, both projections are 0: dx = 1000 * weight * dy.
    case = Case.make("rms_norm", "backward", (2, 4), "float32", eps=1e-6)
    x = torch.tensor([[0.0, 0, 0, 0], [1, 2, 3, 4]])
    both = exact(problem_of(case, x=x, weight=torch.ones(4), dy=torch.ones(2, 4)))
    assert both["dx"][0].tolist() == pytest.approx([1000.0] * 4)
    alone = Case.make("rms_norm", "backward", (1, 4), "float32", eps=1e-6)
    last = exact(problem_of(alone, x=x.detach()[1:].clone(), weight=torch.ones(4), dy=torch.ones(1, 4)))
    assert torch.equal(both["dx"][1:], last["dx"])
    assert torch.equal(both["dweight"], last["dweight"])


def test_a_constant_row_has_a_finite_gradient():
    # A24.
    case = Case.make("layer_norm", "backward", (1, 256), "float32", eps=1e-5)
    problem = problem_of(case, x=torch.full((1, 256), 1234.0), weight=torch.ones(256), bias=torch.zeros(256), dy=torch.randn(1, 256))
    assert exact(problem)["dx"].isfinite().all()


@pytest.mark.parametrize("shape", [(0, 1024), (1, 0, 10), (1, 0)], ids=["no rows", "no rows in three sizes", "no columns"])
def test_empty_input_gives_zero_column_gradients(shape):
    # A25.
    problem = make_problem(Case.make("layer_norm", "backward", shape, "float32"), device="cpu", seed=0)
    values = exact(problem)
    assert set(values) == {"dweight", "dbias"}
    assert torch.equal(values["dweight"], torch.zeros(shape[-1], dtype=torch.float64))


def autograd_float64(problem):
    """Return outputs and gradients of PyTorch's own functions, all in float64."""
    case = problem.case
    inputs = {
        name: getattr(problem, source).detach().clone().requires_grad_()
        for name, source in (("dx", "x"), ("dresidual", "residual"), ("dweight", "weight"), ("dbias", "bias"))
        if getattr(problem, source) is not None
    }
    hidden = inputs["dx"] if case.residual is False else inputs["dx"] + inputs["dresidual"]
    factor = inputs.get("dweight")
    if factor is not None and case.convention == "gemma":
        factor = 1 + factor
    if case.norm == "layer_norm":
        y = F.layer_norm(hidden, hidden.shape[-1:], factor, inputs.get("dbias"), case.eps)
    else:
        y = F.rms_norm(hidden, hidden.shape[-1:], factor, case.eps)
        y = y if "dbias" not in inputs else y + inputs["dbias"]
    results, upstream = [y], [problem.dy]
    if case.residual:
        results.append(hidden)
        upstream.append(problem.dresidual_out)
    gradients = torch.autograd.grad(results, list(inputs.values()), upstream)
    outputs = {"y": y} | ({"residual_out": hidden} if case.residual else {})
    return {name: value.detach() for name, value in outputs.items()} | dict(zip(inputs, gradients, strict=True))


@st.composite
def float64_cases(draw):
    norm = draw(st.sampled_from(["layer_norm", "rms_norm"]))
    weight = draw(st.booleans())
    return Case.make(
        norm,
        "forward_backward",
        # A single column makes LayerNorm constant and its gradient zero, where relative errors mean nothing.
        (draw(st.integers(1, 5)), draw(st.integers(2, 9))),
        "float64",
        weight=weight,
        bias=weight and draw(st.booleans()),
        residual=draw(st.booleans()),
        convention=draw(st.sampled_from(["torch", "llama", "gemma"])) if norm == "rms_norm" else "torch",
        eps=draw(st.sampled_from([1e-6, 1e-2])),
    )


@given(case=float64_cases(), seed=st.integers(0, 1000))
@settings(deadline=None)
def test_values_and_gradients_are_those_of_autograd_in_float64(case, seed):
    problem = make_problem(case, device="cpu", seed=seed)
    ours, theirs = exact(problem), autograd_float64(problem)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-10, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


def test_the_analytic_gradient_is_the_slope_of_the_value():
    # Central differences of the oracle's own y: independent of anyone's differentiation. h^2 = 1e-10 is the error to be expected.
    case = Case.make("layer_norm", "backward", (1, 5), "float64")
    problem = make_problem(case, device="cpu", seed=3)
    step, slopes = 1e-5, []
    for column in range(5):
        ends = []
        for sign in (1, -1):
            x = problem.x.detach().clone()
            x[0, column] += sign * step
            moved = problem_of(case, x=x, weight=problem.weight, bias=problem.bias, dy=problem.dy)
            ends.append((exact(moved)["y"] * problem.dy).sum())
        slopes.append((ends[0] - ends[1]) / (2 * step))
    torch.testing.assert_close(exact(problem)["dx"][0], torch.stack(slopes), rtol=1e-8, atol=1e-8)


def test_pieces_make_the_whole(monkeypatch):
    problem = make_problem(Case.make("layer_norm", "backward", (7, 4), "bfloat16", residual=True), device="cpu", seed=0)
    whole = exact(problem)
    # Chunks of 2 rows leave a last one of a single row.
    monkeypatch.setattr(reference, "CHUNK", 8)
    for name, value in exact(problem).items():
        torch.testing.assert_close(value, whole[name], rtol=1e-14, atol=1e-14)


def test_the_oracle_never_holds_more_than_a_chunk():
    problem = make_problem(Case.make("rms_norm", "forward", (600, 1024), "bfloat16"), device="cpu", seed=0)
    sizes = [piece["y"].value.numel() for _, piece in Oracle(problem).chunks()]
    assert sum(sizes) == 600 * 1024
    assert max(sizes) <= reference.CHUNK


def limits(case):
    oracle = Oracle(make_problem(case, device="cpu", seed=0))
    found = {}
    for _, pieces in oracle.chunks():
        for name, piece in pieces.items():
            found[name] = None if piece.limit is None else piece.limit.clone()
    return found | {name: gradient.limit for name, gradient in oracle.column_gradients().items()}


def test_there_is_a_tolerance_for_every_dtype():
    assert set(TOLERANCES) == set(DType)


def test_the_sum_x_plus_residual_is_granted_nothing():
    assert limits(Case.make("rms_norm", "forward", (2, 8), "bfloat16", residual=True))["residual_out"] is None


@pytest.mark.parametrize("dtype", list(DType))
def test_every_other_limit_is_above_zero(dtype):
    found = limits(Case.make("layer_norm", "backward", (2, 8), dtype))
    assert set(found) == {"y", "dx", "dweight", "dbias"}
    assert all((limit > 0).all() for limit in found.values())


def test_a_weight_gradient_is_granted_more_as_rows_grow_relative_to_its_size_like_their_root():
    # 16 times the rows: the sum is about 4 times as large, and its relative error about 4 times too.
    few, many = (limits(Case.make("layer_norm", "backward", (rows, 256), "float32"))["dweight"].mean() for rows in (64, 1024))
    assert (many / few).item() == pytest.approx(16, rel=0.2)


def test_a_large_mean_is_granted_what_rounding_the_mean_costs():
    # mean/std is 1e4 here: a rounding of the mean, 2^-24 of 1e4, is 6e-4 of the spread, and a sum of 64 is a tree of 6 levels. RMSNorm
    # has nothing to subtract.
    x = 10_000 + torch.randn(1, 64, generator=torch.Generator().manual_seed(0))
    widths = {}
    for norm in ("layer_norm", "rms_norm"):
        case = Case.make(norm, "forward", (1, 64), "float32", weight=False)
        widths[norm] = next(iter(Oracle(problem_of(case, x=x)).chunks()))[1]["y"].limit.mean().item()
    assert widths["layer_norm"] == pytest.approx((6 + 2) * 1e4 * 2**-24, rel=0.3)
    assert widths["rms_norm"] < 20 * 2**-24


# What is not finite is carried through the formula, and stays in its row and its columns.


def of_values(values, norm, shape=(4, 8), pass_="forward_backward", **options):
    case = Case.make(norm, pass_, shape, "float64", **options)
    trial, ordinary = (make_problem(case, device="cpu", seed=0, trial=Trial(values=v)) for v in (values, Values.NORMAL))
    return exact(trial), exact(ordinary)


def rows_that_differ(found, ordinary):
    return [not torch.equal(one, other) for one, other in zip(found, ordinary, strict=True)]


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_a_nan_in_x_makes_its_row_and_every_column_of_dweight_nan(norm):
    found, ordinary = of_values(Values.NAN, norm)
    for name in ("y", "dx"):
        assert found[name][2].isnan().all()
        assert rows_that_differ(found[name], ordinary[name]) == [False, False, True, False]
    assert found["dweight"].isnan().all()
    if norm == "layer_norm":
        assert torch.equal(found["dbias"], ordinary["dbias"])


def test_an_infinity_makes_its_row_of_rms_norm_0_and_nan_where_it_stands():
    # The last row holds one, too: x / sqrt(inf) is 0, and inf / inf no number.
    found, ordinary = of_values(Values.INFINITY, "rms_norm")
    assert rows_that_differ(found["y"], ordinary["y"]) == [False, False, True, True]
    assert found["y"][2].isnan().tolist() == [False] * 4 + [True] + [False] * 3
    assert (found["y"][2].nan_to_num(nan=0) == 0).all()
    assert found["dx"][2:].isnan().all()
    assert found["dweight"].isnan().tolist() == [True] + [False] * 3 + [True] + [False] * 3


def test_an_infinity_makes_its_row_of_layer_norm_nan():
    found, ordinary = of_values(Values.INFINITY, "layer_norm")
    assert found["y"][2:].isnan().all()
    assert torch.equal(found["y"][:2], ordinary["y"][:2])


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_a_nan_in_dy_makes_its_row_of_dx_and_its_column_of_dweight_nan(norm):
    found, ordinary = of_values(Values.NAN_UPSTREAM, norm)
    assert torch.equal(found["y"], ordinary["y"])
    assert found["dx"][2].isnan().all()
    assert rows_that_differ(found["dx"], ordinary["dx"]) == [False, False, True, False]
    for name in ("dweight",) + (("dbias",) if norm == "layer_norm" else ()):
        assert found[name].isnan().tolist() == [False, False, True] + [False] * 5


@pytest.mark.parametrize("layout", Layout)
def test_views_are_read_as_what_they_show(layout):
    case = Case.make("layer_norm", "forward_backward", (2, 3, 4, 10), "float32", residual=True)
    laid_out = make_problem(case, device="cpu", seed=0, trial=Trial(layout=layout))
    tensors = {
        name: getattr(laid_out, name).detach().clone(memory_format=torch.contiguous_format)
        for name in ("x", "weight", "bias", "residual", "dy", "dresidual_out")
    }
    copied = problem_of(case, **tensors)
    for name, value in exact(copied).items():
        assert torch.equal(exact(laid_out)[name], value)


# Limits where rounding is amplified: as much as float32 needs, and no more.


def worst(outputs, problem):
    """Return the largest |output - exact| / limit of each tensor, row by row in one chunk."""
    oracle = Oracle(problem)
    ((_, pieces),) = oracle.chunks()
    pieces |= oracle.column_gradients()
    return {
        name: ((outputs[name].double().reshape(piece.value.shape) - piece.value).abs() / piece.limit).max().item()
        for name, piece in pieces.items()
        if piece.limit is not None
    }


def with_a_shifted_mean(problem, roundings):
    """Return what layer_norm in float64 is with means that are off by some roundings of float32: all that float32 costs, alone."""
    case = problem.case
    x = problem.x.detach().double()
    inputs = [x.requires_grad_(), problem.weight.detach().double().requires_grad_(), problem.bias.detach().double().requires_grad_()]
    mean = x.mean(-1, keepdim=True).detach()
    shifted = mean * (1 + roundings * 2**-24)
    centred = x - (x.mean(-1, keepdim=True) - mean + shifted)
    y = centred * (centred.square().mean(-1, keepdim=True) + case.eps).rsqrt() * inputs[1] + inputs[2]
    return {"y": y.detach()} | dict(zip(("dx", "dweight", "dbias"), torch.autograd.grad(y, inputs, problem.dy.double()), strict=True))


# A24. Beside a spread of 1, of units in the last place (half of the spread is lost in a rounding of the mean), and of nothing.
@pytest.mark.parametrize("values", [Values.LARGE_MEAN, Values.NARROW, Values.CONSTANT])
def test_a_mean_off_by_the_roundings_of_a_tree_is_granted_and_three_times_as_much_is_not(values):
    # 16 columns are a tree of 4 levels, and 2 roundings come on top.
    case = Case.make("layer_norm", "forward_backward", (1, 16), "float32")
    problem = make_problem(case, device="cpu", seed=0, trial=Trial(values=values))
    assert max(worst(with_a_shifted_mean(problem, 6), problem).values()) <= 1
    assert worst(with_a_shifted_mean(problem, 18), problem)["y"] > 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_mean_kept_in_16_bits_is_granted_beside_an_ordinary_spread_only(dtype):
    # What PyTorch's CPU LayerNorm does. A bfloat16 near 40000 is off by up to 128, half the spread.
    worsts = {}
    for values in (Values.NORMAL, Values.LARGE_MEAN):
        problem = make_problem(
            Case.make("layer_norm", "forward_backward", (2, 64), dtype), device="cpu", seed=0, trial=Trial(values=values)
        )
        wide = {name: getattr(problem, name).detach().double() for name in ("x", "weight", "dy")}
        mean = wide["x"].mean(-1, keepdim=True)
        rstd = ((wide["x"] - mean).square().mean(-1, keepdim=True) + problem.case.eps).rsqrt()
        xhat = (wide["x"] - mean.to(problem.x.dtype).double()) * rstd.to(problem.x.dtype).double()
        g = wide["dy"] * wide["weight"]
        dx = rstd * (g - g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True))
        outputs = outputs_by("eager", problem) | {"dx": dx.to(problem.x.dtype), "dweight": (wide["dy"] * xhat).sum(0)}
        worsts[values] = max(worst(outputs, problem)[name] for name in ("dx", "dweight"))
    assert worsts[Values.NORMAL] <= 1
    assert worsts[Values.LARGE_MEAN] > 3
