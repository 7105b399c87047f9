"""Which event ran inside which, and for how long none of those inside it did."""

import pytest
from watched_steps import event, step

from normbench.errors import NormbenchError
from normbench.profile.events import Tree, covered_s


def test_an_event_runs_inside_the_innermost_that_holds_it():
    tree = Tree([step(0, 10), event("operator", "inner", 3, 4), event("operator", "outer", 1, 6), event("operator", "next", 6, 9)])
    assert [one.name for one in tree.events] == ["step", "outer", "inner", "next"]
    assert tree.parents == [None, 0, 1, 0]
    assert tree.children == [[1, 3], [2], [], []]


def test_of_two_alike_the_one_recorded_first_holds_the_other():
    tree = Tree([step(0, 10), event("operator", "outer", 1, 6), event("operator", "inner", 1, 6)])
    assert [one.name for one in tree.ancestors(2)] == ["inner", "outer", "step"]


def test_self_time_leaves_out_what_ran_inside():
    tree = Tree([step(0, 10), event("operator", "a", 1, 4), event("operator", "b", 5, 9), event("operator", "in b", 6, 7)])
    assert [tree.self_s(index) for index in range(4)] == [3, 3, 3, 1]


def test_what_another_thread_does_runs_inside_what_waits_for_it():
    waiting = [
        step(0, 10),
        event("operator", "waits", 2, 8),
        event("operator", "works", 3, 6, thread=2),
        event("operator", "in it", 4, 5, thread=2),
    ]
    tree = Tree(waiting)
    assert tree.parents == [None, 0, 1, 2]
    assert tree.self_s(1) == 3


def test_what_outlasts_its_holder_counts_only_until_then():
    tree = Tree([step(0, 10), event("operator", "waits", 2, 5), event("operator", "works", 3, 9, thread=2)])
    assert tree.self_s(1) == 1


def test_events_before_and_after_the_step_are_left_out():
    tree = Tree([event("operator", "before", 0, 1), step(1, 5), event("operator", "inside", 2, 3), event("operator", "after", 4.5, 6)])
    assert [one.name for one in tree.events] == ["step", "inside"]


@pytest.mark.parametrize("steps", [0, 2])
def test_a_profile_is_that_of_one_step(steps):
    with pytest.raises(NormbenchError, match=f"{steps} events are the step"):
        Tree([step(0, 10)] * steps)


def test_time_is_covered_once_however_many_cover_it():
    within = step(0, 10)
    assert covered_s([event("operator", "a", 1, 4), event("operator", "b", 2, 3), event("operator", "c", 3, 6)], within) == 5
    assert covered_s([event("operator", "before", -3, 2), event("operator", "after", 9, 20)], within) == 3
    assert covered_s([], within) == 0
