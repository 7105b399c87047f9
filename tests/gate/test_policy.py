"""A gate's error rate is shared out before anything is measured, and a gate that could never turn red is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.errors import UsageError
from normbench.gate.policy import MAX_BLOCKS, Policy, require_attainable, thresholds


def test_policy_as_documented():
    policy = Policy()
    assert (policy.margin, policy.bias, policy.error_rate, policy.detectable) == (0.02, 0.005, 0.01, 0.05)


# A margin finer than the default bias, and one coarser than the default limit of what is gateable: each alone makes a rule.
@pytest.mark.parametrize(("margin", "bias", "detectable"), [(0.004, 0.001, 0.05), (0.1, 0.005, 0.2)])
def test_what_is_not_given_follows_the_margin(margin, bias, detectable):
    policy = Policy(margin=margin)
    assert (policy.bias, policy.detectable) == (bias, detectable)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        # Each at and beyond the end of its range, and what a slip of the hand gives: per cent for a share, NaN, nothing, a descending list.
        ({"margin": 0.0}, "margin cannot be 0.0"),
        ({"margin": 2}, "margin cannot be 2"),
        ({"margin": float("nan")}, "margin cannot be nan"),
        ({"bias": 0.02}, "bias cannot be 0.02"),
        ({"bias": -0.001}, "bias"),
        ({"error_rate": 0.0}, "error rate"),
        ({"error_rate": 1.0}, "error rate"),
        ({"miss_rate": 0.0}, "miss rate"),
        ({"detectable": 0.01}, "detectable cannot be 0.01: give a share from the margin"),
        ({"power": 1.0}, "power"),
        ({"looks": ()}, "looks"),
        ({"looks": (12, 8)}, "looks"),
        ({"looks": (8, 8)}, "looks"),
        ({"looks": (3, 12)}, "from 4 to"),
        ({"looks": (8, MAX_BLOCKS + 1)}, f"to {MAX_BLOCKS}"),
        ({"looks": (8.0, 12)}, "looks"),
    ],
)
def test_values_that_make_no_rule_are_refused(fields, named):
    with pytest.raises(UsageError, match=named):
        Policy(**fields)


def test_policy_survives_json():
    policy = Policy(margin=0.03, looks=(10, 20))
    assert msgspec.json.decode(msgspec.json.encode(policy), type=Policy) == policy


looks = st.lists(st.integers(4, MAX_BLOCKS), min_size=1, max_size=6, unique=True).map(lambda values: tuple(sorted(values)))


@given(looks=looks, cases=st.integers(1, 300), error_rate=st.floats(1e-4, 0.5))
def test_what_is_spent_is_never_more_than_the_error_rate(looks, cases, error_rate):
    policy = Policy(looks=looks, error_rate=error_rate)
    try:
        spent = thresholds(policy, cases).change
    except UsageError:
        assert 2.0 ** -looks[-1] > error_rate / 2 / cases, "refused only where the last look cannot reach all that there is for a case"
        return
    assert 2 * cases * sum(spent) <= error_rate * (1 + 1e-12)
    assert spent[-1] > 0
    assert all(share == 0 or 2.0**-look <= share for look, share in zip(looks, spent, strict=True))


def test_first_looks_that_can_show_nothing_spend_nothing():
    # Half of 1 % over 24 cases is 2.1e-4. 8 and 12 blocks show at best 3.9e-3 and 2.4e-4; 18 blocks 3.8e-6.
    assert thresholds(Policy(), 24).change == pytest.approx((0, 0, 0.005 / 24 / 2, 0.005 / 24 / 2))
    # With 6 cases it is 8.3e-4, a third of which 12 blocks can show.
    assert thresholds(Policy(), 6).change == pytest.approx((0, 0.005 / 18, 0.005 / 18, 0.005 / 18))


def test_gate_that_could_never_turn_red_is_refused_and_told_what_it_needs():
    policy = Policy(looks=(6, 10))
    with pytest.raises(UsageError, match=r"24 cases .* could never turn red: 10 blocks .* at least 13 blocks"):
        require_attainable(policy, 24)
    require_attainable(Policy(looks=(6, 13)), 24)
    with pytest.raises(UsageError, match="at least 13 blocks"):
        require_attainable(Policy(looks=(6, 12)), 24)


def test_more_blocks_are_not_recommended_than_can_be_had():
    policy = Policy(looks=(MAX_BLOCKS,), error_rate=1e-11)
    with pytest.raises(UsageError, match="gate fewer cases or allow a larger error rate"):
        require_attainable(policy, 100)


@pytest.mark.parametrize("cases", [0, -1])
def test_no_case_is_no_gate(cases):
    with pytest.raises(UsageError, match="at least one case"):
        require_attainable(Policy(), cases)
