"""Pairwise designs: every two choices that go together meet, in far fewer rows than there are combinations."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.checkup.pairs import cover_pairs


def anything(factor, choice, other_factor, other):
    return True


def pairs_of(rows):
    return {pair for row in rows for pair in combinations(row.items(), 2)}


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_every_pair_is_in_a_row(sizes):
    factors = {f"factor {place}": list(range(size)) for place, size in enumerate(sizes)}
    rows = cover_pairs(factors, anything)
    wanted = {((a, i), (b, j)) for a, b in combinations(factors, 2) for i in factors[a] for j in factors[b]}
    assert pairs_of(rows) >= wanted
    assert all(list(row) == list(factors) for row in rows)
    assert {row["factor 0"] for row in rows} == set(factors["factor 0"])


def test_there_are_about_as_many_rows_as_the_two_longest_factors_need():
    factors = {"shape": range(16), "layout": range(10), "form": range(8), "dtype": range(4), "affine": range(4), "pass": range(2)}
    rows = cover_pairs(factors, anything)
    # All combinations would be 81920.
    assert 160 <= len(rows) <= 180


def test_what_does_not_go_together_never_meets_and_all_else_does():
    factors = {"shape": [1, 2, 3], "layout": ["flat", "heads"], "dtype": ["a", "b"]}

    def allowed(factor, choice, other_factor, other):
        return (factor, other_factor) != ("shape", "layout") or other == "flat" or choice == 3

    rows = cover_pairs(factors, allowed)
    assert all(row["layout"] == "flat" or row["shape"] == 3 for row in rows)
    assert {(row["shape"], row["dtype"]) for row in rows} == {(shape, dtype) for shape in (1, 2, 3) for dtype in "ab"}
    assert {(row["layout"], row["dtype"]) for row in rows} == {(layout, dtype) for layout in ("flat", "heads") for dtype in "ab"}


def test_a_choice_that_goes_with_nothing_is_in_no_row():
    def allowed(factor, choice, other_factor, other):
        return choice != 2

    rows = cover_pairs({"shape": [1, 2], "layout": ["flat"], "dtype": ["a"]}, allowed)
    assert rows == [{"shape": 1, "layout": "flat", "dtype": "a"}]


def test_the_first_rows_say_the_most():
    rows = cover_pairs({"a": range(6), "b": range(5), "c": range(4), "d": range(3)}, anything)
    added = [len(pairs_of(rows[: place + 1])) - len(pairs_of(rows[:place])) for place in range(len(rows))]
    assert added == sorted(added, reverse=True)
    assert added[0] == 6


def test_the_same_factors_give_the_same_rows():
    factors = {"a": range(5), "b": range(4), "c": range(3)}
    assert cover_pairs(factors, anything) == cover_pairs(factors, anything)


@pytest.mark.parametrize("factors", [{"a": []}, {"a": [1], "b": []}], ids=["no choices", "none of one"])
def test_without_choices_there_are_no_rows(factors):
    assert cover_pairs(factors, anything) == []
