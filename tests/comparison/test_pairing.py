"""Every record of either run stands in exactly one pair."""

import msgspec
import synthetic

from normbench.cases.conditions import Conditions, Pages
from normbench.comparison.pairing import pair_up
from normbench.records.record import Role

from . import sides

ONE_THREAD = Conditions(device="cpu", threads=1)
FRESH = Conditions(device="cpu", threads=2, pages=Pages.FRESH)
CASE, OTHER = sides.CASES[:2]


def pairs(before, after, role=Role.PROVIDER, **fields):
    return pair_up(before, after, role, **fields)


def keys(found):
    return [tuple(arm.record.key if arm is not None else None for arm in (one.before, one.after)) for one in found]


def test_records_of_one_key_stand_together_and_the_rest_alone():
    # B03: a removed benchmark does not vanish.
    before = [synthetic.record(CASE, name) for name in ("eager", "aten")]
    after = [synthetic.record(CASE, name) for name in ("aten", "compile")]
    eager, aten, compiled = (synthetic.record(CASE, name).key for name in ("eager", "aten", "compile"))
    assert keys(pairs(before, after)) == [(eager, None), (aten, aten), (None, compiled)]
    assert keys(pairs(before, [])) == [(eager, None), (aten, None)]
    assert pairs([], []) == []


def test_other_conditions_make_one_pair_that_is_refused_by_name():
    before, after = [synthetic.record(CASE)], [synthetic.record(CASE, conditions=ONE_THREAD)]
    (pair,) = pairs(before, after)
    assert [one.text for one in pair.refused] == ["threads 2 against 1"]
    (pair,) = pairs(before, after, across=["threads"])
    assert pair.refused == ()


def test_what_has_its_own_key_is_no_partner_for_another():
    before = [synthetic.record(CASE)]
    after = [synthetic.record(CASE, conditions=ONE_THREAD), synthetic.record(CASE)]
    assert keys(pairs(before, after)) == [(before[0].key, before[0].key), (None, after[0].key)]


def test_of_several_possible_partners_none_is_chosen():
    before = [synthetic.record(CASE)]
    after = [synthetic.record(CASE, conditions=ONE_THREAD), synthetic.record(CASE, conditions=FRESH)]
    assert keys(pairs(before, after)) == [(before[0].key, None), (None, after[0].key), (None, after[1].key)]


def test_another_case_is_no_partner():
    assert len(pairs([synthetic.record(CASE)], [synthetic.record(OTHER)])) == 2


def test_roles_are_kept_apart():
    records = synthetic.group(CASE, ("aten",))
    assert [pair.record.provider for pair in pairs(records, records)] == ["aten"]
    assert [pair.record.provider for pair in pairs(records, records, Role.CONTROL)] == ["copy", "allocate"]


def test_beside_an_arm_stands_what_took_turns_with_it():
    records = [*synthetic.group(CASE), *(msgspec.structs.replace(one, group="") for one in synthetic.group(OTHER))]
    found = pairs(records, records)
    assert {name for pair in found for name in pair.before.beside} == {"eager", "aten", "compile", "copy", "allocate"}
    assert all(one.record.case_id == pair.record.case_id for pair in found for one in pair.after.beside.values())
