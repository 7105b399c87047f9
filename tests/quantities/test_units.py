"""Numbers as text."""

from __future__ import annotations

import pytest

from normbench.quantities.stats import Interval, Unit
from normbench.quantities.units import (
    bytes_text,
    count,
    duration,
    interval_text,
    join_words,
    number,
    percent,
    percent_given,
    rate_text,
    some,
    time_unit,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.12345, "0.123"),
        (1.2345, "1.23"),
        (12.345, "12.3"),
        (123.45, "123"),
        (12345.6, "12346"),
        (9.996, "10.0"),
        (0.00012345, "0.000123"),
    ],
)
def test_number_has_three_digits_and_no_exponent(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("time_s", "text"), [(3e-9, "3.00 ns"), (4.2e-6, "4.20 µs"), (0.0042, "4.20 ms"), (42.0, "42.0 s"), (1e-12, "0.00100 ns")]
)
def test_duration_takes_the_unit_that_suits(time_s, text):
    assert duration(time_s) == text


def test_unit_suits_the_typical_time():
    assert time_unit([1e-6, 1e-3, 1e-2, 1e-2]) == "µs"
    assert time_unit([1e-3, 1.0]) == "ms"
    assert time_unit([0.0, -1.0]) == time_unit([]) == "µs"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (8 * 2**20, "8.00 MiB"), (3 * 2**40, "3.00 TiB"), (3 * 2**50, "3072 TiB")]
)
def test_bytes(count, text):
    assert bytes_text(count) == text


def test_interval_without_bounds_says_so():
    assert interval_text(Interval(estimate=1.0, low=None, high=None, unit=Unit("process", 1))) == "(no interval)"
    assert interval_text(Interval(estimate=1.3, low=1.27, high=1.35, unit=Unit("process", 5))) == "(1.27\u20131.35)"


def test_percent_and_words():
    assert [percent(share) for share in (0.851, 1.05, 0.052, 0.05)] == ["85 %", "105 %", "5.2 %", "5.0 %"]
    # Above the whole there is no exponent either.
    assert [percent(share) for share in (0.0, 0.0996, 0.997, 1.0, 1.5)] == ["0 %", "10 %", "100 %", "100 %", "150 %"]
    assert [percent_given(share) for share in (0.05, 0.07, 0.0025, 1.5)] == ["5 %", "7 %", "0.25 %", "150 %"]
    assert [join_words(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def test_of_many_names_the_first_are_told_and_how_many_more_there_are():
    names = ["a", "b", "c", "d"]
    assert [some(names[:n], 3) for n in range(5)] == ["", "a", "a and b", "a, b and c", "a, b, c and 1 more"]
    assert some(names, 1) == "a and 3 more"


def test_a_noun_is_in_the_plural_but_for_one():
    assert [count(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


def test_a_rate_has_the_wider_half_of_its_interval():
    unit = Unit("process", 5)
    assert rate_text(Interval(estimate=1000.0, low=950.0, high=1020.0, unit=unit)) == "1000 ± 5.0 %"
    assert rate_text(Interval(estimate=1000.0, low=None, high=None, unit=unit)) == "1000 (no interval)"
