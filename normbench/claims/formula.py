"""Arithmetic that a claim's data may ask for: numbers, names, + - * / and comparisons, and a few functions. Pure, and no `eval`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from math import exp, inf, isfinite, nan

from ..errors import NormbenchError

__all__ = ["Number", "compute"]

Number = float | bool

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _least(*values: float) -> float:
    """Return the least finite value; infinite without one."""
    return min((value for value in values if isfinite(value)), default=inf)


def _most(*values: float) -> float:
    """Return the largest value, infinite where one is not finite: what did not end well is the worst."""
    return max(value if isfinite(value) else inf for value in values)


def _where_least(*pairs: float) -> float:
    """Return the first of the pair whose second is least, of x1, y1, x2, y2 …; NaN without a finite one."""
    found = [(y, x) for x, y in zip(pairs[::2], pairs[1::2], strict=True) if isfinite(y)]
    return min(found)[1] if found else nan


_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "abs": abs,
    "exp": exp,
    "finite": isfinite,
    "least": _least,
    "most": _most,
    "where_least": _where_least,
}


def compute(formula: str, values: Mapping[str, float]) -> Number:
    """Return what a formula gives for values by name: a float, or a bool for a comparison.

    Division by 0 gives NaN. Raises NormbenchError for a formula that cannot be read, an unknown name or anything else than arithmetic.
    """
    try:
        return _value(ast.parse(formula, mode="eval").body, values)
    except (SyntaxError, KeyError, TypeError) as error:
        raise NormbenchError(f"formula {formula!r} cannot be computed: {type(error).__name__} {error}") from None


def _value(node: ast.expr, values: Mapping[str, float]) -> Number:
    match node:
        case ast.Constant(value=int() | float() as constant):
            return constant
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, values)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            above, below = _value(left, values), _value(right, values)
            return above / below if below else nan
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.BoolOp(op=op, values=parts):
            found = [bool(_value(part, values)) for part in parts]
            return all(found) if isinstance(op, ast.And) else any(found)
        case ast.Compare(left=left, ops=ops, comparators=others):
            chain = [_value(left, values), *(_value(other, values) for other in others)]
            return all(_COMPARISONS[type(op)](one, two) for op, one, two in zip(ops, chain, chain[1:], strict=False))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(argument, values) for argument in arguments))
    raise TypeError(ast.unparse(node))
