"""The check: right implementations pass, and each fault known from other code bases is caught and named."""

import msgspec
import pytest
import torch
from handmade import exact, outputs_by, problem_of
from hypothesis import given, settings
from hypothesis import strategies as st

from normbench.cases.adversary import Layout, Trial, Values
from normbench.cases.case import Case
from normbench.oracle.check import check, describe_failure
from normbench.oracle.problem import make_problem
from normbench.workloads.op import outputs_of

pytestmark = pytest.mark.usefixtures("one_thread")


def verdict(problem, outputs):
    """Return the accuracies of one set of outputs by tensor name."""
    return {entry.tensor: entry for entry in check(problem.case, problem, {"mine": outputs})["mine"]}


def verdict_of(function, case, seed=0):
    problem = make_problem(case, device="cpu", seed=seed)
    return verdict(problem, outputs_of(problem, function))


def right_answer(problem):
    """Return the oracle's own values in the dtypes asked for."""
    return {
        name: value.to(problem.x.dtype if value.shape == problem.x.shape else problem.weight.dtype)
        for name, value in exact(problem).items()
    }


def rms_problem(pass_="forward", shape=(4, 16), dtype="float32", **options):
    return make_problem(Case.make("rms_norm", pass_, shape, dtype, **options), device="cpu", seed=0)


# What is right passes.


@st.composite
def any_case(draw):
    norm = draw(st.sampled_from(["layer_norm", "rms_norm"]))
    dtype = draw(st.sampled_from(["float32", "bfloat16", "float16", "float64"]))
    weight = draw(st.booleans())
    return Case.make(
        norm,
        draw(st.sampled_from(["forward", "backward", "forward_backward"])),
        tuple(draw(st.lists(st.integers(0, 70), min_size=1, max_size=2))),
        dtype,
        weight=weight,
        weight_dtype=draw(st.sampled_from([dtype, "float32"])) if weight else None,
        bias=weight and draw(st.booleans()),
        residual=draw(st.booleans()),
        convention=draw(st.sampled_from(["torch", "llama", "gemma"])) if norm == "rms_norm" else "torch",
        eps=draw(st.sampled_from([1e-6, 1e-5, 1e-2])),
    )


@given(case=any_case(), seed=st.integers(0, 1000))
@settings(deadline=None)
def test_norms_written_by_hand_pass_in_every_form(case, seed):
    problem = make_problem(case, device="cpu", seed=seed)
    accuracies = check(case, problem, {"eager": outputs_by("eager", problem)})["eager"]
    assert describe_failure(accuracies) == ""
    assert all(entry.passed for entry in accuracies)


def test_every_output_and_gradient_has_one_entry_in_a_fixed_order():
    problem = make_problem(
        Case.make("layer_norm", "backward", (4, 16), "bfloat16", residual=True, weight_dtype="float32"), device="cpu", seed=0
    )
    accuracies = check(problem.case, problem, {"a": right_answer(problem), "b": right_answer(problem)})
    assert accuracies["a"] == accuracies["b"]
    assert [(entry.tensor, entry.dtype) for entry in accuracies["a"]] == [
        ("y", "bfloat16"),
        ("residual_out", "bfloat16"),
        ("dx", "bfloat16"),
        ("dresidual", "bfloat16"),
        ("dweight", "float32"),
        ("dbias", "float32"),
    ]


def test_the_figures_say_how_far_off_a_tensor_is():
    # 1.0 in float16 has an ulp of 2^-10; one step up is off by that and by twice what one rounding explains.
    case = Case.make("rms_norm", "forward", (1, 2), "float16", weight=False, eps=0)
    problem = problem_of(case, x=torch.ones(1, 2, dtype=torch.float16))
    entry = verdict(problem, {"y": torch.tensor([[1.0, 1.0 + 2**-10]], dtype=torch.float16)})["y"]
    assert (entry.max_abs, entry.ulps) == (2**-10, 1.0)
    assert entry.error == pytest.approx(2, rel=0.01)
    assert not entry.passed


def test_an_element_near_zero_is_counted_in_ulps_of_its_row():
    problem = rms_problem(shape=(1, 64))
    y = right_answer(problem)["y"]
    y[0, 0] += 2**-23
    # The row's root mean square is about 1, where an ulp of float32 is 2^-23 or half that.
    assert 0.9 < verdict(problem, {"y": y})["y"].ulps < 2.1


@pytest.mark.parametrize("shape", [(0, 16), (1, 0, 8), (2, 0)], ids=["no rows", "no rows in three sizes", "no columns"])
def test_empty_outputs_pass(shape):
    # A25.
    problem = make_problem(Case.make("layer_norm", "backward", shape, "float32"), device="cpu", seed=0)
    columns = torch.zeros(shape[-1])
    found = verdict(problem, {"y": torch.empty(shape), "dx": torch.empty(shape), "dweight": columns, "dbias": columns})
    assert all(entry.passed and entry.error == 0 for entry in found.values())


def test_uninitialised_column_gradients_of_no_rows_are_caught():
    # A25, A34.
    problem = make_problem(Case.make("rms_norm", "backward", (0, 16), "float32"), device="cpu", seed=0)
    found = verdict(problem, {"y": torch.empty(0, 16), "dx": torch.empty(0, 16), "dweight": torch.full((16,), 1e-30)})
    assert not found["dweight"].passed


def test_an_exact_value_past_the_range_of_the_dtype_must_be_infinite():
    case = Case.make("rms_norm", "forward", (1, 2), "float16", eps=0)
    weight = torch.tensor([60000.0, 1.0], dtype=torch.float16)
    x = torch.tensor([[2.0, 0.5]], dtype=torch.float16)
    problem = problem_of(case, x=x, weight=weight)
    y = exact(problem)["y"]
    assert y[0, 0] > torch.finfo(torch.float16).max
    assert verdict(problem, {"y": y.half()})["y"].passed
    assert not verdict(problem, {"y": torch.tensor([[60000.0, y[0, 1]]], dtype=torch.float16)})["y"].passed


def test_outputs_of_any_strides_are_compared_by_value():
    problem = rms_problem(shape=(4, 16))
    transposed = right_answer(problem)["y"].T.contiguous().T
    assert not transposed.is_contiguous()
    assert verdict(problem, {"y": transposed})["y"].passed


def test_the_number_of_threads_is_left_as_it_was():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        verdict(rms_problem(), {})
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# What cannot be compared is named.


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda out: out.pop("dweight"), "dweight is missing", id="gradient never computed"),
        pytest.param(lambda out: out.update(dbias=out["dweight"]), "dbias was not asked for", id="gradient too many"),
        pytest.param(lambda out: out.update(y=out["y"].float()), "y has dtype float32, not bfloat16", id="promoted by a float32 weight"),
        pytest.param(lambda out: out.update(dweight=out["dweight"][None]), "dweight has shape (1, 16), not (16,)", id="shape"),
        pytest.param(lambda out: out.update(y=[1.0]), "y is of type list, not a tensor", id="no tensor"),
    ],
)
def test_the_wrong_set_of_tensors_is_named(change, reason):
    problem = rms_problem("backward", dtype="bfloat16")
    outputs = right_answer(problem)
    change(outputs)
    accuracies = check(problem.case, problem, {"mine": outputs})["mine"]
    assert describe_failure(accuracies) == reason
    fault = next(entry for entry in accuracies if not entry.passed)
    assert (fault.error, fault.max_abs, fault.ulps) == (None, None, None)


# What is not finite never passes.


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("tensor", ["y", "dx", "dweight"])
def test_a_value_that_is_not_finite_fails_and_is_counted(tensor, value):
    problem = rms_problem("backward")
    outputs = right_answer(problem)
    outputs[tensor].view(-1)[3:5] = value
    accuracies = check(problem.case, problem, {"mine": outputs})["mine"]
    assert describe_failure(accuracies) == f"{tensor} has 2 values that are not finite where the exact ones are"
    entry = {entry.tensor: entry for entry in accuracies}[tensor]
    # The rest is right, and its figures are numbers that JSON can hold.
    assert entry.error <= 1
    assert msgspec.json.decode(msgspec.json.encode(entry), type=type(entry)) == entry


def test_nothing_finite_leaves_no_figures():
    problem = rms_problem()
    entry = verdict(problem, {"y": torch.full_like(problem.x, float("nan"))})["y"]
    assert (entry.error, entry.max_abs, entry.ulps, entry.nonfinite, entry.passed) == (None, None, None, 64, False)


# A NaN or an infinity that goes in must come out where the formula puts it, and nowhere else.


def tried(case, values, layout=Layout.CONTIGUOUS):
    return make_problem(case, device="cpu", seed=0, trial=Trial(values=values, layout=layout))


@pytest.mark.parametrize("values", [Values.NAN, Values.INFINITY, Values.NAN_UPSTREAM])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_what_the_formula_makes_of_it_passes(norm, dtype, values):
    problem = tried(Case.make(norm, "forward_backward", (5, 16), dtype), values)
    assert all(entry.passed for entry in verdict(problem, outputs_by("eager", problem)).values())


def test_a_nan_that_is_swallowed_is_caught():
    problem = tried(Case.make("rms_norm", "forward", (5, 16), "float32"), Values.NAN)
    y = outputs_by("eager", problem)["y"].nan_to_num(nan=0.0)
    accuracies = check(problem.case, problem, {"mine": {"y": y}})["mine"]
    assert describe_failure(accuracies) == "y has 16 values other than the NaN or infinity that the formula makes of the input's"
    assert accuracies[0].swallowed == 16


def test_a_nan_that_spreads_to_a_neighbour_is_caught_and_the_others_keep_their_figures():
    problem = tried(Case.make("rms_norm", "forward", (5, 16), "float32"), Values.NAN)
    y = outputs_by("eager", problem)["y"]
    y[3] = float("nan")
    entry = verdict(problem, {"y": y})["y"]
    assert (entry.nonfinite, entry.swallowed, entry.passed) == (16, 0, False)
    assert 0 < entry.error < 1
    assert entry.ulps < 4


def test_columns_that_see_no_nan_are_judged():
    problem = tried(Case.make("rms_norm", "forward_backward", (6, 16), "float32"), Values.NAN_UPSTREAM)
    outputs = outputs_by("eager", problem)
    assert outputs["dweight"].isnan().sum() == 1
    outputs["dweight"][0] += 1
    assert not verdict(problem, outputs)["dweight"].passed


def test_rounding_may_carry_a_value_past_the_range_of_its_dtype():
    # 65520 is half way between the largest float16 and what would be next; LLaMA's product is rounded twice.
    case = Case.make("rms_norm", "forward", (1, 1), "float16", eps=0, convention="llama")
    problem = problem_of(case, x=torch.ones(1, 1, dtype=torch.float16), weight=torch.full((1,), 65504.0, dtype=torch.float16))
    assert verdict(problem, {"y": torch.full((1, 1), float("inf"), dtype=torch.float16)})["y"].passed
    assert not verdict(problem, {"y": torch.full((1, 1), float("-inf"), dtype=torch.float16)})["y"].passed


# Figures where an exact value is nothing but cancellation.


def test_a_row_that_is_exactly_0_has_no_ulps_and_no_relative_norm():
    # A24: a constant row without a bias; what is left of it is a rounding of the mean.
    problem = tried(Case.make("layer_norm", "forward", (6, 17), "float32", bias=False), Values.CONSTANT)
    entry = verdict(problem, outputs_by("eager", problem))["y"]
    assert entry.passed
    assert entry.max_abs > 0
    assert entry.ulps <= 1
    assert entry.relative is None


def test_the_relative_norm_is_that_of_all_deviations():
    problem = rms_problem(shape=(50, 64))
    y = right_answer(problem)["y"]
    entry = verdict(problem, {"y": y * 1.5})["y"]
    assert entry.relative == pytest.approx(0.5, rel=1e-5)
    assert verdict(problem, {"y": y})["y"].relative < 2**-24


# Faults that others have had, in the order of the ways a norm goes wrong.


def layer_norm_of(variance_of):
    """Return a float32 LayerNorm whose variance comes from a function of the float32 row."""

    def layer_norm(x, weight, bias, residual, eps):
        wide = x.float()
        y = (wide - wide.mean(-1, keepdim=True)) * torch.rsqrt(variance_of(wide) + eps)
        return (y * weight + bias).to(x.dtype)

    return layer_norm


def padded(wide):
    """Return the variance as counted over a row padded with zeros to a power of two, each of which adds mean^2."""
    cols = wide.shape[-1]
    extra = 2 ** (cols - 1).bit_length() - cols
    return wide.var(-1, correction=0, keepdim=True) + extra / cols * wide.mean(-1, keepdim=True).square()


# The next power of two is 32, 128, 256, 1024 and 4096: from many lanes too many to a single one.
@pytest.mark.parametrize("cols", [17, 127, 255, 768, 3072])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_padded_lanes_in_the_variance_are_caught(dtype, cols):
    # A09.
    assert not verdict_of(layer_norm_of(padded), Case.make("layer_norm", "forward", (16, cols), dtype))["y"].passed


def test_cancellation_in_a_one_pass_variance_is_caught():
    case = Case.make("layer_norm", "forward", (8, 1024), "float32")
    problem = make_problem(case, device="cpu", seed=0)
    # A mean of 1000 spreads: 1e6 in float32 has an ulp of 0.06, 6 % of the variance.
    shifted = problem_of(case, x=problem.x + 1000, weight=problem.weight, bias=problem.bias)
    assert not verdict(shifted, outputs_of(shifted, layer_norm_of(one_pass)))["y"].passed
    assert verdict(shifted, outputs_of(shifted, layer_norm_of(two_pass)))["y"].passed


def one_pass(wide):
    return wide.square().mean(-1, keepdim=True) - wide.mean(-1, keepdim=True).square()


def two_pass(wide):
    return wide.var(-1, correction=0, keepdim=True)


# A24: the widths of the report, of a normal row, and of one that is far from a power of two.
@pytest.mark.parametrize("cols", [4, 16, 255, 4096])
@pytest.mark.parametrize("values", [Values.LARGE_MEAN, Values.NARROW])
def test_cancellation_is_caught_beside_a_large_mean_and_a_centred_variance_passes(values, cols):
    problem = tried(Case.make("layer_norm", "forward", (8, cols), "float32"), values)
    assert not verdict(problem, outputs_of(problem, layer_norm_of(one_pass)))["y"].passed
    assert verdict(problem, outputs_of(problem, layer_norm_of(two_pass)))["y"].passed


def test_the_row_of_the_report_of_cancellation():
    # A24: 40000 to 40003 have the variance 1.25; in one pass it comes to -128 in float32, and its root is no number.
    case = Case.make("layer_norm", "forward", (1, 4), "float32", weight=False, eps=1e-5)
    x = torch.tensor([[40000.0, 40001, 40002, 40003]])
    right = torch.tensor([[-1.3416, -0.4472, 0.4472, 1.3416]], dtype=torch.float64)
    problem = problem_of(case, x=x)
    assert torch.allclose(exact(problem)["y"], right, atol=1e-4)
    assert verdict(problem, {"y": outputs_by("aten", problem)["y"]})["y"].passed


def test_an_eps_outside_the_root_is_caught_in_rows_like_eps():
    # A13, with values that differ.
    problem = tried(Case.make("rms_norm", "forward", (8, 64), "float32"), Values.TINY)
    wide = problem.x / (problem.x.square().mean(-1, keepdim=True).sqrt() + problem.case.eps)
    assert not verdict(problem, {"y": wide * problem.weight})["y"].passed


def test_the_cube_of_a_small_rstd_that_underflows_is_caught():
    # x of 1e17 has squares that float32 holds, and rstd^3 = 1e-51 that it does not: autograd of x * rsqrt(...) loses a projection.
    problem = tried(Case.make("rms_norm", "forward_backward", (3, 64), "float32"), Values.HUGE)
    found = verdict(problem, outputs_by("eager", problem))
    assert found["y"].passed
    assert not found["dx"].passed


def test_squares_that_overflow_float16_are_caught():
    # A23.
    case = Case.make("rms_norm", "forward", (2, 64), "float16", weight=False)
    problem = problem_of(case, x=torch.full((2, 64), 1000.0, dtype=torch.float16))
    y = problem.x * torch.rsqrt(problem.x.pow(2).mean(-1, keepdim=True) + case.eps)
    assert (y == 0).all()
    assert not verdict(problem, {"y": y})["y"].passed


def test_a_dtype_dependent_eps_is_caught():
    # A12.
    # bfloat16's own eps of 2^-7 in place of 1e-6 shrinks rows of this size by 1.8.
    case = Case.make("rms_norm", "forward", (8, 32), "bfloat16", weight=False)
    problem = problem_of(case, x=make_problem(case, device="cpu", seed=0).x * 0.058)
    wide = problem.x.double()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 2**-7)
    assert not verdict(problem, {"y": y.bfloat16()})["y"].passed


def test_an_eps_outside_the_root_is_caught():
    # A13.
    case = Case.make("rms_norm", "forward", (2, 10), "float32", weight=False)
    problem = problem_of(case, x=torch.full((2, 10), 1e-3))
    y = problem.x / (problem.x.square().mean(-1, keepdim=True).sqrt() + case.eps)
    assert not verdict(problem, {"y": y})["y"].passed


def test_the_llama_convention_is_not_the_torch_convention():
    # A10.
    problem = rms_problem(shape=(4, 4096), dtype="bfloat16")
    llama = rms_problem(shape=(4, 4096), dtype="bfloat16", convention="llama")
    assert torch.equal(problem.x, llama.x)
    assert not verdict(problem, outputs_by("eager", llama))["y"].passed


def test_a_gemma_factor_rounded_to_bfloat16_is_caught():
    # A11.
    problem = rms_problem(shape=(4, 256), dtype="bfloat16", convention="gemma")
    wide = problem.x.float()
    y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + problem.case.eps) * (1 + problem.weight)
    assert not verdict(problem, {"y": y.bfloat16()})["y"].passed


def test_a_norm_that_reads_the_unrounded_sum_is_caught():
    # A15.
    problem = rms_problem(shape=(8, 512), dtype="bfloat16", residual=True)
    wide = problem.x.float() + problem.residual.float()
    y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + problem.case.eps) * problem.weight
    found = verdict(problem, {"y": y.bfloat16(), "residual_out": wide.bfloat16()})
    assert found["residual_out"].passed
    assert not found["y"].passed


def test_a_sum_off_by_one_bit_is_caught():
    problem = rms_problem(residual=True)
    outputs = right_answer(problem)
    outputs["residual_out"].view(torch.int32)[0, 0] += 1
    accuracies = check(problem.case, problem, {"mine": outputs})["mine"]
    assert "residual_out is off by up to" in describe_failure(accuracies)
    assert "must equal x + residual rounded once" in describe_failure(accuracies)


def test_the_second_output_dropped_from_the_gradient_is_caught():
    problem = make_problem(Case.make("rms_norm", "backward", (4, 16), "bfloat16", residual=True), device="cpu", seed=0)
    outputs = right_answer(problem)
    outputs["dresidual"] = (outputs["dresidual"].double() - problem.dresidual_out.double()).bfloat16()
    assert not verdict(problem, outputs)["dresidual"].passed


# The widest row of a common model, where unrelated centred data would leave projections of 0.01, below bfloat16's reach.
@pytest.mark.parametrize("projection", ["c1", "c2"])
def test_a_dropped_projection_is_caught_in_bfloat16_at_large_widths(projection):
    problem = make_problem(Case.make("layer_norm", "backward", (2, 16384), "bfloat16"), device="cpu", seed=0)
    x, g = problem.x.detach().double(), problem.dy.double() * problem.weight.detach().double()
    rstd = (x.var(-1, correction=0, keepdim=True) + problem.case.eps).rsqrt()
    xhat = (x - x.mean(-1, keepdim=True)) * rstd
    c1, c2 = g.mean(-1, keepdim=True), (g * xhat).mean(-1, keepdim=True)
    outputs = right_answer(problem)
    kept = g - xhat * c2 if projection == "c1" else g - c1
    outputs["dx"] = (rstd * kept).bfloat16()
    assert not verdict(problem, outputs)["dx"].passed


def column_sums(problem, add):
    """Return right outputs but for dweight and dbias, summed row by row with `add`."""
    x = problem.x.detach().double()
    xhat = (x - x.mean(-1, keepdim=True)) * (x.var(-1, correction=0, keepdim=True) + problem.case.eps).rsqrt()
    outputs = right_answer(problem)
    for name, terms in (("dweight", problem.dy.double() * xhat), ("dbias", problem.dy.double())):
        total = torch.zeros(problem.case.cols, dtype=torch.float64)
        for row in terms:
            total = add(total, row)
        outputs[name] = total.to(problem.weight.dtype)
    return outputs


def test_column_sums_accumulated_in_bfloat16_are_caught_and_in_float32_pass():
    # A14.
    problem = make_problem(Case.make("layer_norm", "backward", (4096, 128), "bfloat16"), device="cpu", seed=0)
    in_bfloat16 = verdict(problem, column_sums(problem, lambda total, row: (total + row).bfloat16().double()))
    assert not in_bfloat16["dweight"].passed
    assert not in_bfloat16["dbias"].passed
    in_float32 = verdict(problem, column_sums(problem, lambda total, row: (total + row).float().double()))
    assert in_float32["dweight"].passed
    assert in_float32["dbias"].passed


def test_a_serial_sum_of_ones_stalls_in_bfloat16_at_256():
    # A14.
    # The hand-worked probe: x = dy = weight = 1 and eps = 0 over 4096 rows sums to 4096; 256 + 1 is 256 in bfloat16.
    case = Case.make("rms_norm", "backward", (4096, 2), "bfloat16", eps=0)
    ones = torch.ones(4096, 2, dtype=torch.bfloat16)
    problem = problem_of(case, x=ones, weight=torch.ones(2, dtype=torch.bfloat16), dy=ones.clone())
    assert exact(problem)["dweight"].tolist() == [4096, 4096]
    stalled = right_answer(problem) | {"dweight": torch.full((2,), 256.0, dtype=torch.bfloat16)}
    assert verdict(problem, right_answer(problem))["dweight"].passed
    assert not verdict(problem, stalled)["dweight"].passed


def test_rows_left_out_of_the_weight_gradient_are_caught():
    # The last 64 of 4096 rows missing, as with a block of rows that a grid does not reach.
    problem = make_problem(Case.make("rms_norm", "backward", (4096, 64), "bfloat16"), device="cpu", seed=0)
    outputs = right_answer(problem)
    x = problem.x.detach().double()
    xhat = x * (x.square().mean(-1, keepdim=True) + problem.case.eps).rsqrt()
    outputs["dweight"] = (problem.dy.double() * xhat)[:-64].sum(0).bfloat16()
    assert not verdict(problem, outputs)["dweight"].passed


# A29: one more than what fits 64 KiB in float32 and in 16 bits, and far past both.
@pytest.mark.parametrize(("cols", "dtype"), [(16385, "float32"), (32769, "bfloat16"), (72704, "float32")])
@pytest.mark.parametrize("provider", ["eager", "aten"])
def test_rows_past_one_block_are_right_to_their_last_column_and_a_missing_one_is_caught(provider, cols, dtype):
    problem = make_problem(Case.make("rms_norm", "forward", (2, cols), dtype), device="cpu", seed=0)
    outputs = outputs_by(provider, problem)
    assert verdict(problem, outputs)["y"].passed
    outputs["y"][:, -1] = 0
    assert not verdict(problem, outputs)["y"].passed


@pytest.mark.parametrize("provider", ["eager", "aten"])
def test_rows_in_batches_of_another_size_pass_whatever_their_bits(provider):
    # A38: a block size that follows the number of rows changes the order of sums, and with it bits, but nothing that counts.
    problem = make_problem(Case.make("layer_norm", "forward", (1024, 320), "bfloat16"), device="cpu", seed=0)
    pieces = []
    for rows in problem.x.split(255):
        case = Case.make("layer_norm", "forward", tuple(rows.shape), "bfloat16")
        pieces.append(outputs_by(provider, problem_of(case, x=rows, weight=problem.weight, bias=problem.bias))["y"])
    assert verdict(problem, {"y": torch.cat(pieces)})["y"].passed


# A35: a provider that is never asked for its weight gradient looks faster; A33: without a weight there is none to ask for.
@pytest.mark.parametrize("weight", [True, False])
@pytest.mark.parametrize("provider", ["eager", "aten"])
def test_every_provider_yields_the_gradients_of_what_it_is_given(provider, weight):
    problem = make_problem(Case.make("layer_norm", "backward", (4, 64), "float32", weight=weight), device="cpu", seed=0)
    found = verdict(problem, outputs_by(provider, problem))
    assert set(found) == ({"y", "dx", "dweight", "dbias"} if weight else {"y", "dx"})
    assert all(entry.passed for entry in found.values())
