"""Formulas of claims: arithmetic on named figures, and nothing else."""

from __future__ import annotations

from math import inf, isnan, nan

import pytest

from normbench.claims.formula import compute
from normbench.errors import NormbenchError

VALUES = {"a": 6.0, "b": 3.0, "zero": 0.0, "lost": nan, "never": inf}


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("a - b", 3.0),
        ("a / b", 2.0),
        ("100 * (1 - b / a)", 50.0),
        ("-a + 2", -4.0),
        ("abs(b - a)", 3.0),
        ("exp(zero)", 1.0),
        ("least(a, lost, b)", 3.0),
        ("least(lost, lost)", inf),
        ("most(a, b)", 6.0),
        ("most(a, lost)", inf),
        ("where_least(0.1, a, 0.2, b, 0.3, lost)", 0.2),
        ("a > b", True),
        ("a > b > zero", True),
        ("b <= a < 6", False),
        ("finite(a) and not finite(lost)", True),
        ("finite(lost) or finite(never)", False),
        ("lost < a", False),
    ],
)
def test_formula_gives(formula, expected):
    found = compute(formula, VALUES)
    assert found == expected
    assert isinstance(found, bool) is isinstance(expected, bool)


def test_division_by_zero_is_no_number():
    assert isnan(compute("a / zero", VALUES))
    assert isnan(compute("where_least(0.1, lost)", VALUES))


@pytest.mark.parametrize(
    "formula", ["a +", "unknown", "a.real", "__import__('os')", "[a]", "a ** b", "abs(x=a)", "'text'", "a if b else a"]
)
def test_anything_else_is_refused(formula):
    with pytest.raises(NormbenchError, match="cannot be computed"):
        compute(formula, VALUES)
