"""Problems made of a few numbers, the oracle's answer in one piece, and a provider's outputs."""

import torch

from normbench.cases.definition import Definition
from normbench.oracle.problem import Problem
from normbench.oracle.reference import Oracle
from normbench.registry import Registry
from normbench.workloads.op import outputs_of


def problem_of(case, *, x, weight=None, bias=None, residual=None, dy=None, dresidual_out=None):
    """Return a problem of given tensors; those that are differentiated ask for gradients."""
    if case.pass_.has_backward:
        for tensor in (x, weight, bias, residual):
            if tensor is not None:
                tensor.requires_grad_()
    return Problem(
        case=case,
        device=torch.device("cpu"),
        x=x,
        weight=weight,
        bias=bias,
        residual=residual,
        dy=dy,
        dresidual_out=dresidual_out,
    )


def exact(problem):
    """Return the oracle's value of every output and gradient, float64."""
    return exact_of(problem, Definition.FORMULA)


def exact_of(problem, definition):
    """Return what a provider of a definition should yield: every output and gradient, float64."""
    oracle = Oracle(problem, definition)
    pieces = {}
    for _, expected in oracle.chunks():
        for name, piece in expected.items():
            pieces.setdefault(name, []).append(piece.value.clone())
    values = {name: torch.cat(rows).reshape(problem.x.shape) for name, rows in pieces.items()}
    return values | {name: gradient.value[0] for name, gradient in oracle.column_gradients().items()}


def outputs_by(name, problem):
    """Return what the built-in provider `name` makes of a problem, forward and backward as the case asks."""
    with torch.set_grad_enabled(problem.case.pass_.has_backward):
        return outputs_of(problem, Registry().resolve(name).prepare(problem.case))
