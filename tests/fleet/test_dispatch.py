"""Every group is handed over exactly once, whatever becomes of the nodes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.errors import NormbenchError
from normbench.fleet.dispatch import ATTEMPTS, dispatch, next_task
from normbench.measure.group import Group

from .stub import StubCluster

CPU = Conditions(device="cpu", threads=1)


def units(count, size=1):
    """Return units of `size` groups each."""
    cases = [Case.make("rms_norm", "forward", (number + 1, 64), "float32") for number in range(count * size)]
    groups = [Group.of([case], CPU, ["aten"]) for case in cases]
    return [groups[start : start + size] for start in range(0, len(groups), size)]


class Desk:
    """Note what is handed over."""

    def __init__(self):
        self.done, self.failed = Counter(), {}

    def run(self, asked, cluster, most=8):
        dispatch(
            asked,
            cluster,
            most=most,
            on_start=lambda seat, groups: None,
            on_done=lambda group, records: self.done.update([group.id]),
            on_failed=lambda seat, group, reason: self.failed.update({group.id: reason}),
        )


@given(
    st.integers(1, 25),
    st.integers(1, 3),
    st.dictionaries(st.integers(0, 12), st.sampled_from(["lost", "crashed"])),
)
def test_every_group_is_handed_over_exactly_once(count, size, fate):
    asked, desk = units(count, size), Desk()
    # One seat more than can be lost.
    cluster = StubCluster([f"node{number}" for number in range(len(fate) + 1)], fate)
    desk.run(asked, cluster)
    ids = {group.id for unit in asked for group in unit}
    assert desk.done.keys() | desk.failed.keys() == ids
    assert not desk.done.keys() & desk.failed.keys()
    assert set(desk.done.values()) <= {1}


def test_what_is_lost_with_its_node_is_measured_elsewhere():
    desk, cluster = Desk(), StubCluster(["a", "b"], {0: "lost"})
    desk.run(units(1), cluster)
    assert [seat for seat, _ in cluster.tasks] == ["a", "b"]
    assert set(desk.done.values()) == {1}
    assert desk.failed == {}


def test_what_takes_node_after_node_down_is_given_up():
    desk, cluster = Desk(), StubCluster(list("abcd"), dict.fromkeys(range(ATTEMPTS), "lost"))
    desk.run(units(1), cluster)
    assert len(cluster.tasks) == ATTEMPTS
    assert list(desk.failed.values()) == ["node c lost"]


def test_what_crashed_is_at_fault_and_is_not_tried_again():
    desk, cluster = Desk(), StubCluster(["a"], {0: "crashed"})
    desk.run(units(2), cluster, most=1)
    assert list(desk.failed.values()) == ["node a crashed"]
    assert len(desk.done) == 1
    assert len(cluster.tasks) == 2


def test_without_a_node_it_ends_with_one_error():
    desk, cluster = Desk(), StubCluster(["a"], {1: "lost"})
    with pytest.raises(NormbenchError, match="no node of the cluster is left to measure on, and 2 cases are not measured: resume"):
        desk.run(units(3), cluster, most=1)
    assert len(desk.done) == 1


@given(st.lists(st.integers(1, 10), min_size=1, max_size=40), st.integers(1, 6), st.integers(1, 9))
def test_task_is_at_most_half_of_a_seats_share(sizes, seats, most):
    waiting = [[None] * size for size in sizes]
    count = next_task(waiting, seats, most)
    assert 1 <= count <= len(waiting)
    if count > 1:
        assert sum(sizes[:count]) <= min(most, sum(sizes) / (2 * seats))
