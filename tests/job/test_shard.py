"""Shards are disjoint, make up the whole, and keep together what a report puts side by side."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.cases.model_case import ModelCase
from normbench.errors import UsageError
from normbench.job.request import make_request
from normbench.job.shard import Shard, units_of
from normbench.measure.group import Group
from normbench.text.choices import Choices

CPU = Conditions(device="cpu", threads=1)
SHAPES = [(4, 128, 2**power) for power in range(5, 12)]


def op_group(norm="rms_norm", shape=(8, 64), pass_="forward", **options):
    return Group.of([Case.make(norm, pass_, shape, "float32", **options)], CPU, ["aten", "eager"])


def network_group(name):
    cases = [ModelCase.make(name, "tiny", norm, "forward", (2, 64)) for norm in ("layer_norm", "rms_norm")]
    return Group.of(cases, CPU, ["aten"])


GRID = [
    op_group(norm, shape, pass_) for norm in ("layer_norm", "rms_norm") for pass_ in ("forward", "forward_backward") for shape in SHAPES
]


@given(st.integers(1, 20), st.randoms(use_true_random=False))
def test_shards_are_disjoint_and_make_up_the_whole(count, random):
    groups = random.sample(GRID, len(GRID))
    parts = [Shard(index=index, count=count).pick(groups) for index in range(1, count + 1)]
    picked = [group.id for part in parts for group in part]
    assert sorted(picked) == sorted(group.id for group in groups)
    assert all(part == [group for group in groups if group in part] for part in parts), "in the order of the list"


@given(st.integers(1, 14))
def test_shards_differ_by_one_unit_at_most(count):
    sizes = [len(units_of(Shard(index=index, count=count).pick(GRID))) for index in range(1, count + 1)]
    assert max(sizes) - min(sizes) <= 1


@given(st.randoms(use_true_random=False))
def test_which_shard_takes_a_case_does_not_depend_on_the_order_of_the_list(random):
    shard = Shard(index=2, count=3)
    groups = random.sample(GRID, len(GRID))
    assert {group.id for group in shard.pick(groups)} == {group.id for group in shard.pick(GRID)}


def test_no_shard_gets_the_largest_of_everything():
    # 14 units, 7 sizes: dealt out in the order of the grid, seven shards would get one size each.
    sizes = [{group.case.shape for group in Shard(index=index, count=7).pick(GRID)} for index in range(1, 8)]
    assert any(len(found) > 1 for found in sizes)


def test_norms_of_one_shape_stay_together():
    for index in range(1, 5):
        mine = Shard(index=index, count=4).pick(GRID)
        assert all(len(unit) == 2 for unit in units_of(mine))
        assert {len({group.case.norm for group in unit}) for unit in units_of(mine)} == {2}


@pytest.mark.parametrize(
    "other",
    [
        op_group("layer_norm", (8, 128)),
        op_group("layer_norm", pass_="backward"),
        op_group("layer_norm", residual=True),
        op_group("layer_norm", weight=False),
        Group.of([Case.make("layer_norm", "forward", (8, 64), "float32")], Conditions(device="cpu", threads=2), ["aten"]),
    ],
    ids=["shape", "pass", "residual", "weight", "threads"],
)
def test_what_differs_in_more_than_the_norm_may_be_taken_apart(other):
    assert [len(unit) for unit in units_of([op_group("rms_norm"), other])] == [1, 1]
    assert [len(unit) for unit in units_of([op_group("rms_norm"), op_group("layer_norm"), other])] == [2, 1]


def test_norms_stay_with_their_network_and_networks_that_share_one_with_each_other():
    gpt2, bert, cnn = (network_group(name) for name in ("gpt2", "bert", "cnn"))
    own, shared, other = (op_group(shape=shape) for shape in ((2, 64), (4, 64), (8, 64)))
    beside = {gpt2.id: [own, shared], bert.id: [shared], cnn.id: [other]}
    groups = [gpt2, own, shared, bert, cnn, other]
    found = [{group.id for group in unit} for unit in units_of(groups, beside)]
    assert found == [{gpt2.id, own.id, shared.id, bert.id}, {cnn.id, other.id}]


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "a/b", "-1/2", "1/2/3", "1.0/2"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(UsageError, match=r"not one of the parts of a run: give i/n"):
        Shard.parse(text)


def test_shard_is_parsed():
    assert Shard.parse(" 2/8 ") == Shard(index=2, count=8)
    assert Shard.parse("2/8").text == "2/8"


def request(shard=None, grid="8x64,16x64,32x64"):
    return make_request(Choices(grid=grid, provider="aten", threads=1), command=[], shard=shard)


def test_request_of_a_shard_has_its_groups_only():
    parts = [request(Shard(index=index, count=4)).groups() for index in range(1, 5)]
    assert all(parts)
    assert sorted(group.id for part in parts for group in part) == sorted(group.id for group in request().groups())
    for one, other in itertools.combinations(parts, 2):
        assert not {group.id for group in one} & {group.id for group in other}


def test_empty_shard_is_refused_with_how_many_there_can_be():
    # Three shapes and two passes, both norms of each together.
    with pytest.raises(UsageError, match="shard 7/7 is empty: what was asked for can be taken apart into 6 shards at most"):
        request(Shard(index=7, count=7))
