"""The op tier: one call of one norm. Turns a case, its tensors and a provider's function into the call that is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..cases.case import Case, Pass
from ..records.record import ALLOCATE, COPY

if TYPE_CHECKING:
    import torch

    from ..oracle.problem import Problem
    from ..registry import NormFunction

__all__ = [
    "OpRepetition",
    "OpWorkload",
    "control_calls",
    "differentiable_inputs",
    "make_call",
    "make_forward",
    "outputs_of",
    "private_copies",
]

_PAGE_BYTES = 4096


def differentiable_inputs(problem: Problem) -> dict[str, torch.Tensor]:
    """Return the inputs whose gradients every provider must yield, by gradient name."""
    named = {"dx": problem.x, "dresidual": problem.residual, "dweight": problem.weight, "dbias": problem.bias}
    return {name: tensor for name, tensor in named.items() if tensor is not None}


def make_forward(problem: Problem, function: NormFunction) -> Callable[[], Any]:
    """Return the forward call alone, whatever the pass."""
    return partial(function, problem.x, problem.weight, problem.bias, problem.residual, problem.case.eps)


def _upstream(problem: Problem) -> tuple[torch.Tensor, ...]:
    return tuple(t for t in (problem.dy, problem.dresidual_out) if t is not None)


def _as_tuple(result: Any) -> tuple[torch.Tensor, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def make_call(problem: Problem, function: NormFunction) -> Callable[[], Any]:
    """Return the timed work of one pass, gradients returned rather than accumulated.

    forward: the function alone (the caller switches autograd off). forward_backward: the function and all gradients. backward: all
    gradients of a graph built here, outside the clock, and kept from call to call.
    """
    import torch

    forward = make_forward(problem, function)
    if problem.case.pass_ is Pass.FORWARD:
        return forward
    inputs = tuple(differentiable_inputs(problem).values())
    upstream = _upstream(problem)
    if problem.case.pass_ is Pass.BACKWARD:
        return partial(torch.autograd.grad, _as_tuple(forward()), inputs, upstream, retain_graph=True)
    grad = torch.autograd.grad
    if problem.residual is None:

        def forward_backward() -> Any:
            return grad(forward(), inputs, upstream)

    else:

        def forward_backward() -> Any:
            return grad(_as_tuple(forward()), inputs, upstream)

    return forward_backward


def outputs_of(problem: Problem, function: NormFunction) -> dict[str, Any]:
    """Run a function once and return what is to be checked: y, residual_out and, in a pass with backward, every gradient.

    A missing output or gradient is absent from the result; more outputs than asked for keep their position as name.
    """
    import torch

    results = _as_tuple(make_forward(problem, function)())
    names = ["y", "residual_out"] if problem.residual is not None else ["y"]
    outputs: dict[str, Any] = {names[i] if i < len(names) else f"output {i}": value for i, value in enumerate(results)}
    if problem.case.pass_.has_backward:
        inputs = differentiable_inputs(problem)
        gradients = torch.autograd.grad(results[: len(names)], tuple(inputs.values()), _upstream(problem), allow_unused=True)
        outputs |= {name: gradient for name, gradient in zip(inputs, gradients, strict=True) if gradient is not None}
    return {name: value.detach() if isinstance(value, torch.Tensor) else value for name, value in outputs.items()}


def private_copies(problem: Problem, mutates: tuple[str, ...]) -> tuple[Problem, Callable[[], None] | None]:
    """Return a problem whose mutated inputs are copies, and a function that restores them; the problem itself when none are."""
    from ..oracle.distortion import clone_as_laid_out

    if not mutates:
        return problem, None
    pristine: Mapping[str, torch.Tensor] = {name: getattr(problem, name).detach() for name in mutates if getattr(problem, name) is not None}
    copies = {name: clone_as_laid_out(tensor) for name, tensor in pristine.items()}

    def restore() -> None:
        for name, copy in copies.items():
            copy.copy_(pristine[name])

    changes: dict[str, Any] = dict(copies)
    return replace(problem, **changes), restore


def control_calls(problem: Problem) -> dict[str, Callable[[], Any]]:
    """Return the calls that run along with the providers and depend on none of them."""
    import torch

    x = problem.x.detach()
    target = torch.empty_like(x)
    calls: dict[str, Callable[[], Any]] = {COPY: partial(target.copy_, x)}
    if x.device.type == "cpu":
        count = _output_count(problem.case)
        stride = max(1, _PAGE_BYTES // x.element_size())

        def allocate() -> Any:
            for _ in range(count - 1):
                torch.empty_like(x).view(-1)[::stride].fill_(0)
            return torch.empty_like(x).view(-1)[::stride].fill_(0)

        calls[ALLOCATE] = allocate
    return calls


def _output_count(case: Case) -> int:
    # Backward, x and the residual share one gradient, as they do in `traffic.bytes_moved`.
    return (2 if case.residual else 1) * case.pass_.has_forward + case.pass_.has_backward


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRepetition:
    """Hold the calls of all arms on one problem; see `workload.Repetition`."""

    problem: Problem
    calls: dict[str, Callable[[], Any]] = field(default_factory=dict)
    restores: dict[str, Callable[[], None]] = field(default_factory=dict)

    @property
    def input_bytes(self) -> int:
        return self.problem.x.nbytes

    def controls(self) -> Mapping[str, Callable[[], Any]]:
        """Return a copy of x and, on a CPU, the allocation of the outputs."""
        return control_calls(self.problem)

    def begin(self) -> None:
        """Leave all as it is: every call of a norm is like the first."""


class OpWorkload:
    """Make repetitions of one norm call by several functions; see `workload.Workload`."""

    def __init__(
        self,
        case: Case,
        device: torch.device,
        functions: Mapping[str, NormFunction],
        mutates: Mapping[str, tuple[str, ...]],
        *,
        is_redrawn: bool,
    ) -> None:
        """Prepare to call `functions`; without `is_redrawn` repetitions differ in where tensors lie and not in what stands in them."""
        self._case = case
        self._device = device
        self._functions = functions
        self._mutates = mutates
        self._is_redrawn = is_redrawn
        self._drawn: Problem | None = None

    def prepare(self) -> None:
        """Make nothing: repetitions share functions alone, and those are there."""

    def repetition(self, seed: int) -> OpRepetition:
        """Return a newly allocated problem and the calls of all functions on it."""
        from ..oracle.problem import make_problem, moved

        problem = make_problem(self._case, device=self._device, seed=seed) if self._drawn is None else moved(self._drawn)
        if not self._is_redrawn:
            self._drawn = problem
        made = OpRepetition(problem=problem)
        for name, function in self._functions.items():
            own, restore = private_copies(problem, self._mutates[name])
            made.calls[name] = make_call(own, function)
            if restore is not None:
                made.restores[name] = restore
        return made
