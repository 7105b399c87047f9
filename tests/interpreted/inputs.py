"""Inputs of the kernels: any norm, shape, dtype, values and strides, as hypothesis strategies; and launches small enough to interpret."""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import nan, prod
from unittest.mock import patch

import torch
from hypothesis import strategies as st

from normbench.cases.adversary import Trial, Values
from normbench.cases.case import Case
from normbench.kernels import calls, launch
from normbench.oracle.distortion import whole_storage
from normbench.oracle.problem import make_problem
from normbench.registry import Registry
from normbench.workloads.op import differentiable_inputs, make_forward, outputs_of

TENSORS = ("x", "residual", "weight", "bias", "dy", "dresidual_out")

# Several tiles, steps and column blocks within 100 columns, where a launch has as many only from thousands on.
SMALL = {"TILE": 64, "WIDE_TILE": 32, "SMALL_COLS": 16, "MAX_FORWARD_COLS": 32, "LOOP_COLS": 32, "MAX_BACKWARD_COLS": 32}


@contextmanager
def launches(*, small, multiprocessors):
    """Launch kernels as they are launched, or with limits so small that all forms of them run at a few columns."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(calls, "multiprocessors", lambda device: multiprocessors))
        if small:
            stack.enter_context(patch.multiple(launch, **SMALL))
            stack.enter_context(patch.object(calls, "LOOP_COLS", SMALL["LOOP_COLS"]))
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Say how a tensor lies in a larger one: every `step`-th row, `before` and `after` elements around each, or in another order."""

    kind: str = "contiguous"
    before: int = 0
    after: int = 0
    step: int = 1

    def lay_out(self, tensor):
        """Return a view that equals the tensor; whatever lies between its elements is NaN."""

        def between(*shape):
            return torch.full(shape, nan, dtype=tensor.dtype)

        *lead, cols = tensor.shape
        match self.kind:
            case "contiguous":
                return tensor.clone()
            case "sliced":
                first = [lead[0] * self.step, *lead[1:]] if lead else []
                view = between(*first, self.before + cols + self.after)
                view = (view[:: self.step] if lead else view)[..., self.before : self.before + cols]
            case "transposed":
                view = between(*reversed(tensor.shape)).permute(*reversed(range(tensor.ndim)))
            case "heads":
                # (batch, heads, sequence, width) seen as (..., heads, width): from three dimensions on rows have no common stride.
                order = [*reversed(range(len(lead))), len(lead)]
                view = between(*reversed(lead), cols).permute(order)
            case "every second":
                view = between(*lead, 2 * cols)[..., ::2]
            case "one row":
                # Stride 0 down the rows: all of them are the first.
                return tensor.reshape(-1, cols)[:1].clone()[0].expand(tensor.shape)
            case "one value":
                return tensor.reshape(-1)[:1].clone()[0].expand(tensor.shape)
            case _:
                raise AssertionError(self.kind)
        return view.copy_(tensor)


CONTIGUOUS = Layout()


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Hold one input of the property: a case, how its tensors are made and lie, and how its kernels are launched."""

    case: Case
    values: Values
    layouts: dict[str, Layout]
    seed: int
    small: bool
    multiprocessors: int

    def problem(self, *, strided):
        """Return the problem, its tensors as `layouts` says or all contiguous; both hold the same numbers."""
        made = make_problem(self.case, device="cpu", seed=self.seed, trial=Trial(values=self.values))
        laid_out = {}
        for name in TENSORS:
            if (tensor := getattr(made, name)) is not None:
                view = self.layouts.get(name, CONTIGUOUS).lay_out(tensor.detach())
                laid_out[name] = (view if strided else view.contiguous().clone()).requires_grad_(tensor.requires_grad)
        return replace(made, **laid_out)

    def run(self, problem, *, wanted=None):
        """Return the outputs of the kernels, and all gradients that the case has or only those that are `wanted`, by name."""
        function = Registry().resolve("triton").prepare(problem.case)
        with launches(small=self.small, multiprocessors=self.multiprocessors), torch.set_grad_enabled(problem.case.pass_.has_backward):
            if wanted is None:
                return outputs_of(problem, function)
            asked = {name: tensor for name, tensor in differentiable_inputs(problem).items() if name in wanted}
            for name, tensor in differentiable_inputs(problem).items():
                tensor.requires_grad_(name in wanted)
            results = make_forward(problem, function)()
            outputs = {"y": results} if problem.residual is None else {"y": results[0], "residual_out": results[1]}
            upstream = [tensor for tensor in (problem.dy, problem.dresidual_out) if tensor is not None]
            # A sum of x and residual that ask for nothing does not either.
            there = [(output, gradient) for output, gradient in zip(outputs.values(), upstream, strict=True) if output.requires_grad]
            gradients = torch.autograd.grad([output for output, _ in there], [*asked.values()], [gradient for _, gradient in there])
        return {name: output.detach() for name, output in outputs.items()} | dict(zip(asked, gradients, strict=True))


def memory_of(problem):
    """Return copies of every byte that the tensors of a problem are views of."""
    return {name: whole_storage(tensor.detach()).clone() for name in TENSORS if (tensor := getattr(problem, name)) is not None}


def same_bits(a, b):
    """Say whether tensors are equal bit for bit, NaNs and the sign of zero included."""
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


# Every kind has its share. No bfloat16 weight beside float64: Triton's interpreter (3.7) makes uint16 of its gradient by truncation.
DTYPES = ["float32", "bfloat16", "float16", "float64"]
WEIGHT_DTYPES = {
    "float32": ["float32", "bfloat16", "float16"],
    "bfloat16": ["bfloat16", "float32", "float16"],
    "float16": ["float16", "float32", "bfloat16"],
    "float64": ["float64", "float32", "float16"],
}
# None, so small that it vanishes in 16 bits, those in use, and one that dominates.
EPS = [0.0, 1e-12, 1e-6, 1e-5, 1e-2, 10.0]

# What float32 cannot hold is told by `normbench check`, not judged.
JUDGED = [values for values in Values if not values.is_past_float32]


@st.composite
def layouts(draw, ndim):
    """Draw how a tensor of so many dimensions lies."""
    kinds = ["contiguous", "sliced", "sliced", "every second"] + ["transposed", "heads"] * (ndim > 1)
    kind = draw(st.sampled_from(kinds))
    if kind != "sliced":
        return Layout(kind=kind)
    return Layout(kind=kind, before=draw(st.integers(0, 17)), after=draw(st.integers(0, 17)), step=draw(st.integers(1, 3)))


@st.composite
def shapes(draw, small, min_rows):
    """Draw 1 to 4 dimensions; wide ones where kernels are launched small, so that they take several steps and blocks."""
    cols = draw(st.one_of(st.integers(1, 40), st.integers(33, 80) if small else st.integers(1, 600)))
    # As many rows as the interpreter gets through in tens of milliseconds.
    most = 4 if small and cols > 32 else 13
    lead = draw(st.lists(st.integers(1, most), max_size=3).filter(lambda sizes: min_rows <= prod(sizes) <= most))
    return (*lead, cols)


@st.composite
def inputs(draw, pass_, values=JUDGED, min_rows=1):
    """Draw an input of a pass; `values` are what its tensors may hold."""
    small = draw(st.booleans())
    norm, dtype = draw(st.sampled_from(["layer_norm", "rms_norm"])), draw(st.sampled_from(DTYPES))
    has_weight = draw(st.integers(0, 4)) > 0
    shape = draw(shapes(small, min_rows))
    case = Case.make(
        norm,
        pass_,
        shape,
        dtype,
        residual=draw(st.booleans()),
        weight=has_weight,
        weight_dtype=draw(st.sampled_from(WEIGHT_DTYPES[dtype])) if has_weight else None,
        bias=has_weight and draw(st.booleans()),
        # Without eps a row of one column is 0/0.
        eps=draw(st.sampled_from(EPS if shape[-1] > 1 else EPS[1:])),
        convention="torch" if norm == "layer_norm" else draw(st.sampled_from(["torch", "llama", "gemma"])),
    )
    chosen = draw(st.sampled_from([entry for entry in values if entry.fits(case) and is_defined(case, entry)]))
    ndim = len(case.shape)
    upstream = st.one_of(layouts(ndim), st.sampled_from([Layout(kind="one row"), Layout(kind="one value")]))
    lying = {name: draw(layouts(ndim)) for name in ("x", "residual")} | {name: draw(layouts(1)) for name in ("weight", "bias")}
    if case.pass_.has_backward:
        lying |= {name: draw(upstream) for name in ("dy", "dresidual_out")}
    return Input(
        case=case,
        values=chosen,
        layouts=lying,
        seed=draw(st.integers(0, 2**16)),
        small=small,
        # 1 has all rows in few programs, 2 is what the interpreter has, 40 more partial sums than one step of their sum takes.
        multiprocessors=draw(st.sampled_from([1, 2, 40])),
    )


def is_defined(case, values):
    """Say whether the formula has a value: without eps a row without spread is 0/0, and what rounding makes of it nobody can ask for."""
    return case.eps > 0 or values not in (Values.CONSTANT, Values.ZERO_ROWS)
