"""Where 16 bits lose eps or overflow, and what the conventions round."""

from __future__ import annotations

import pytest

from normbench.studies.over_seeds import chosen
from normbench.studies.precision import PRECISION
from normbench.studies.study import Scale

from .running import observed


@pytest.fixture(scope="module")
def found():
    return observed(PRECISION, Scale(seeds=2))


def arm(found, **setting):
    (one,) = chosen(found, **setting)
    return one


@pytest.mark.parametrize(("eps", "is_lost"), [(1e-12, True), (1e-8, True), (1e-7, False), (1e-6, False), (1e-5, False)])
def test_eps_is_lost_in_float16_below_half_of_its_smallest_number(found, eps, is_lost):
    one = arm(found, dtype="float16", computed="throughout", norm="layer_norm", eps=eps)
    assert (one.value("eps_in_dtype") == 0) is is_lost
    assert (one.value("nonfinite") > 0) is is_lost


def test_nothing_is_lost_in_float32_or_bfloat16(found):
    rest = [one for one in found if "eps" in one.setting and not one.matches(dtype="float16", computed="throughout")]
    assert rest
    assert all(one.value("nonfinite") == 0 for one in rest)


def test_square_overflows_in_float16_at_256_and_not_in_float32(found):
    naive = arm(found, dtype="float16", computed="throughout", norm="rms_norm", eps=1e-6)
    wide = arm(found, dtype="float16", computed="in float32", norm="rms_norm", eps=1e-6)
    assert naive.value("largest_right") == pytest.approx(65504**0.5, rel=0.01)
    assert wide.value("largest_right") == 65504


def test_llama_rounds_a_quarter_of_the_elements_otherwise(found):
    for dtype in ("float16", "bfloat16"):
        llama = chosen(found, dtype=dtype, convention="llama")[0]
        plain = chosen(found, dtype=dtype, convention="torch")[0]
        assert 20 < llama.value("differs_percent") < 32
        assert plain.value("differs_percent") == 0
        assert plain.value("largest_error_half_ulps") <= 1.01 < llama.value("largest_error_half_ulps")
