"""One row for each (case, conditions, provider) of either run, each with a verdict and a reason."""

from math import inf, nan

import msgspec
import pytest
import synthetic

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.cases.model_case import ModelCase
from normbench.comparison.difference import LEVEL, Verdict
from normbench.comparison.rows import CALL_OVERHEAD_S, make_rows
from normbench.records.record import ALLOCATE, COPY, NO_NORM, Role, Status

from . import sides
from .sides import A, B, changed, records

CASE = sides.CASES[0]


def rows(before, after, **fields):
    return make_rows(before, after, **fields).rows


def verdicts(before, after, **fields):
    return {one.provider: one.verdict for one in rows(before, after, **fields) if one.case == CASE.id}


def test_same_code_twice_is_no_difference():
    found = rows(records(A), records(B), detectable=0.5)
    assert len(found) == len(sides.CASES) * len(sides.PROVIDERS)
    assert {one.verdict for one in found} == {Verdict.NO_DIFFERENCE}, found


def test_what_one_provider_lost_is_slower_in_all_of_its_rows_and_in_no_other():
    found = rows(records(A), records(B, times={"eager": 1.6}), detectable=0.5)
    assert {one.verdict for one in found if one.provider == "eager"} == {Verdict.SLOWER}
    assert {one.verdict for one in found if one.provider == "aten"} == {Verdict.NO_DIFFERENCE}
    back = rows(records(B, times={"eager": 1.6}), records(A), detectable=0.5)
    assert {one.verdict for one in back if one.provider == "eager"} == {Verdict.FASTER}


@pytest.mark.parametrize("mood", [1.5, 0.7])
def test_a_machine_that_was_slower_all_through_makes_no_row_slower(mood):
    table = make_rows(records(A), records(B, mood=mood))
    assert {one.verdict for one in table.rows} <= {Verdict.INCONCLUSIVE, Verdict.NO_DIFFERENCE}
    assert table.drifts[0].direct.common_ratio == pytest.approx(mood, rel=0.05)
    assert table.drifts[0].relative.typical_share < 0.05
    # Both are shown: the time that the machine made, and the ratio in which that cancels.
    assert all(
        one.direct.ratio == pytest.approx(mood, rel=0.15) and one.relative.ratio == pytest.approx(1.0, rel=0.05) for one in table.rows
    )


def test_intervals_hold_for_all_rows_together():
    table = make_rows(records(A), records(B))
    assert 1 - table.level == pytest.approx((1 - LEVEL) / len(table.rows))
    assert {one.direct.level for one in table.rows} == {table.level}


def test_a_provider_may_be_the_reference_and_stands_alone_then():
    found = rows(records(A), records(B), references=["aten"])
    assert {one.provider for one in found if one.relative is None} == {"aten"}
    assert all(one.direct is not None for one in found)


def test_without_controls_nothing_is_called_however_large():
    without = [[one for one in run if one.provider not in (COPY, ALLOCATE)] for run in (records(A), records(B, times={"eager": 9.0}))]
    found = rows(*without)
    assert {one.verdict for one in found} == {Verdict.INCONCLUSIVE}
    assert all("no control was measured in both runs" in one.reason and one.direct.ratio is not None for one in found)


def test_controls_that_were_taken_in_another_way_tell_nothing():
    def other_timer(one):
        taken = msgspec.structs.replace(one.measurement, timer="cuda_event")
        return msgspec.structs.replace(one, measurement=taken) if one.role is Role.CONTROL else one

    table = make_rows(records(A), [other_timer(one) for one in records(B, times={"eager": 9.0})])
    assert not table.drifts[0].direct.is_known
    assert {one.verdict for one in table.rows} == {Verdict.INCONCLUSIVE}


@pytest.mark.parametrize("side", ["A", "B"])
def test_one_process_says_nothing_of_the_next(side):
    single = {"A": A, "B": B}[side]
    taken = {seed: records(seed, processes=1 if seed == single else 8) for seed in (A, B)}
    assert {(one.verdict, one.reason) for one in rows(taken[A], taken[B])} == {
        (Verdict.INCONCLUSIVE, f"{side} has it from one process only, which says nothing of the next")
    }


def test_a_throttled_device_decides_nothing():
    hot = changed(records(B, times={"eager": 1.6}), "eager", status=Status.THROTTLED, reason="over 90 degrees")
    (row,) = (one for one in rows(records(A), hot) if one.provider == "eager" and one.case == CASE.id)
    assert (row.verdict, row.reason) == (Verdict.INCONCLUSIVE, "B: over 90 degrees")
    assert row.direct.ratio == pytest.approx(1.6, rel=0.1)


# Status before, status after: what a row of a provider says. None is a record that is not there.
OK, WRONG, ERROR, OOM, UNSUPPORTED, SKIPPED, INTERRUPTED = (
    Status.OK,
    Status.WRONG,
    Status.ERROR,
    Status.OOM,
    Status.UNSUPPORTED,
    Status.SKIPPED,
    Status.INTERRUPTED,
)


@pytest.mark.parametrize(
    ("before", "after", "verdict", "reason"),
    [
        # B03: what is not there any more is missing; what is new is named.
        (OK, None, Verdict.MISSING, "measured in A, not in B"),
        (None, OK, Verdict.NEW, "not in A"),
        (OK, WRONG, Verdict.WRONG, "B: why"),
        (OK, ERROR, Verdict.FAILED, "error in B: why"),
        (OK, OOM, Verdict.FAILED, "oom in B: why"),
        (OK, UNSUPPORTED, Verdict.FAILED, "unsupported in B: why"),
        (OK, INTERRUPTED, Verdict.FAILED, "interrupted in B: why"),
        (UNSUPPORTED, WRONG, Verdict.WRONG, "B: why"),
        (None, ERROR, Verdict.FAILED, "error in B: why"),
        (UNSUPPORTED, OK, Verdict.NEW, "unsupported in A: why"),
        (WRONG, OK, Verdict.NEW, "wrong in A: why"),
        (SKIPPED, SKIPPED, Verdict.NOT_MEASURED, "skipped in both: why"),
        (WRONG, WRONG, Verdict.NOT_MEASURED, "wrong in both: why"),
        (WRONG, ERROR, Verdict.NOT_MEASURED, "wrong in A, error in B: why"),
        (SKIPPED, None, Verdict.NOT_MEASURED, "skipped in A, not in B"),
        (None, SKIPPED, Verdict.NOT_MEASURED, "skipped in B, not in A"),
    ],
)
def test_status_before_and_after(before, after, verdict, reason):
    def side(seed, status):
        kept = [one for one in records(seed) if one.provider != "eager"]
        if status is None:
            return kept
        fields = {} if status is OK else {"status": status, "reason": "why"}
        return [*kept, synthetic.record(CASE, "eager", **fields)]

    (row,) = (one for one in rows(side(A, before), side(B, after)) if one.provider == "eager")
    assert (row.verdict, row.reason) == (verdict, reason)
    assert row.direct is row.relative is None


def test_other_conditions_are_a_row_that_says_so():
    found = rows(records(A), records(B, conditions=Conditions(device="cpu", threads=1)))
    assert {(one.verdict, one.reason) for one in found} == {(Verdict.NOT_COMPARABLE, "threads 2 against 1")}
    assert len(found) == len(sides.CASES) * len(sides.PROVIDERS)


def test_conditions_that_are_studied_are_compared_controls_too():
    table = make_rows(records(A), records(B, conditions=Conditions(device="cpu", threads=1)), across=["threads"])
    assert table.drifts[0].direct.groups == len(sides.CASES)
    assert all(one.direct.low is not None for one in table.rows)


# B19: a time of zero, or none, has no ratio.
@pytest.mark.parametrize("odd", [0.0, nan, inf, -1.0])
@pytest.mark.parametrize("side", ["A", "B"])
def test_times_that_are_none_are_not_comparable(odd, side):
    taken = {"A": records(A), "B": records(B)}
    taken[side] = changed(taken[side], "eager", measurement=synthetic.constant(odd))
    (row,) = (one for one in rows(taken["A"], taken["B"]) if one.provider == "eager" and one.case == CASE.id)
    assert row.verdict is Verdict.NOT_COMPARABLE
    assert row.reason.startswith(f"{side}: its samples are not all finite and positive")
    assert row.direct is row.relative is None


# B51: a test of microseconds flaps; below what a call costs there is no change to speak of, and above it there is.
@pytest.mark.parametrize(
    ("time_s", "factor", "verdict"),
    [(2e-6, 1.6, Verdict.SLOWER), (CALL_OVERHEAD_S / 2, 1.6, Verdict.NO_DIFFERENCE), (CALL_OVERHEAD_S / 2, 6.0, Verdict.SLOWER)],
)
def test_a_change_has_to_be_beyond_a_relative_and_an_absolute_floor(time_s, factor, verdict):
    def side(seed, factor):
        def quick(case):
            return synthetic.measurement(time_s * factor, seed=seed + case.rows, processes=8, noise=0.002)

        return [msgspec.structs.replace(one, measurement=quick(one.case)) if one.provider == "eager" else one for one in records(seed)]

    # Without the reference, whose drift these samples do not share.
    found = rows(side(A, 1.0), side(B, factor), references=[])
    assert {one.verdict for one in found if one.provider == "eager"} == {verdict}


# B43: a problem 4096 times as large that takes as long is another case, and never the partner of the small one.
def test_cases_of_other_sizes_never_stand_side_by_side():
    small, large = (Case.make("rms_norm", "forward", shape, "float32") for shape in ((16, 1024), (65536, 1024)))
    found = rows(records(A, cases=[small]), records(B, cases=[large]))
    assert {one.case: one.verdict for one in found} == {small.id: Verdict.MISSING, large.id: Verdict.NEW}


def networks(seed, **times):
    """Return the records of six networks, each with either norm and a control in one group, as the engine writes them."""
    like = synthetic.record(CASE)
    found = []
    for tokens in range(16, 22):
        cases = [ModelCase.make("gpt2", "tiny", norm, "forward", (2, tokens)) for norm in ("layer_norm", "rms_norm")]
        arms = [(case, "aten", Role.PROVIDER) for case in cases] + [(cases[0], NO_NORM, Role.CONTROL)]
        for case, name, role in arms:
            time_s = 1e-3 * times.get(case.norm.value, 1.0) if role is Role.PROVIDER else 1e-3
            taken = synthetic.measurement(time_s, seed=seed + tokens, name=name, noise=0.002, processes=8)
            fields = {"case": case, "case_id": case.id, "provider": name, "role": role, "group": f"group {tokens}"}
            found.append(msgspec.structs.replace(like, measurement=taken, **fields))
    return found


def test_a_network_is_put_over_the_network_without_norms_that_took_turns_with_it_whatever_its_norm():
    table = make_rows(networks(A), networks(B, rms_norm=1.6))
    assert {one.reference for one in table.rows} == {NO_NORM}
    assert {one.verdict for one in table.rows if "rms_norm" in one.case} == {Verdict.SLOWER}
    assert not any(one.verdict is Verdict.SLOWER for one in table.rows if "layer_norm" in one.case)


def test_controls_of_one_tier_say_nothing_of_another():
    table = make_rows([*records(A), *networks(A)], [*records(B, mood=1.5), *networks(B)])
    drifts = {one.tier.value: one.direct for one in table.drifts}
    assert drifts["op"].common_ratio == pytest.approx(1.5, rel=0.1)
    assert drifts["model"].common_ratio == pytest.approx(1.0, rel=0.1)
