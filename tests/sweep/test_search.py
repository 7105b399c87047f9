"""The largest batch that fits is found within the resolution, nothing is asked twice, and a search ends whatever it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.errors import UsageError
from normbench.sweep.search import End, Search

BATCHES = st.integers(1, 100_000)
RESOLUTIONS = st.sampled_from([0.0, 1 / 64, 1 / 16, 0.25, 0.9])


def searched(search, fits):
    """Return what was asked, in order, where `fits` answers."""
    asked = []
    while (batch := search.next) is not None:
        asked.append(batch)
        search.tell(batch, fits(batch))
    return asked


@given(threshold=st.integers(0, 200_000), start=BATCHES, room=st.integers(0, 100_000), resolution=RESOLUTIONS)
def test_every_threshold_is_found_within_the_resolution(threshold, start, room, resolution):
    most = start + room
    search = Search(start=start, most=most, resolution=resolution)
    asked = searched(search, lambda batch: batch <= threshold)
    found = search.largest or 0
    assert len(asked) == len(set(asked))
    assert all(1 <= batch <= most for batch in asked)
    assert found <= threshold
    assert min(threshold, most) - found <= found * resolution
    assert search.end is (End.CAPPED if threshold >= most else End.FOUND)
    assert len(asked) <= 2 * 17 + 2


@given(answers=st.functions(like=lambda batch: None, returns=st.booleans(), pure=True), start=st.integers(1, 5000), resolution=RESOLUTIONS)
def test_search_ends_whatever_it_is_told(answers, start, resolution):
    search = Search(start=start, most=20_000, resolution=resolution)
    asked = searched(search, answers)
    assert len(asked) == len(set(asked))
    assert search.end in (End.FOUND, End.CAPPED)


@given(told=st.lists(st.tuples(st.integers(1, 64), st.booleans()), max_size=12), threshold=st.integers(0, 64))
def test_answers_told_unasked_are_gone_on_from_or_contradict_each_other(told, threshold):
    search = Search(most=64)
    for batch, fits in told:
        search.tell(batch, fits)
    known = dict(told)
    is_lawful = len(set(told)) == len(known) and all(
        not (not fits and other_fits and batch < other) for batch, fits in known.items() for other, other_fits in known.items()
    )
    assert (search.contradiction is None) == is_lawful
    asked = searched(search, lambda batch: batch <= threshold)
    assert not set(asked) & known.keys()
    assert (search.end is End.CONTRADICTION) == (search.contradiction is not None)
    assert is_lawful or not asked


def test_batches_double_and_what_lies_between_is_halved():
    search = Search()
    assert searched(search, lambda batch: batch <= 100) == [1, 2, 4, 8, 16, 32, 64, 128, 96, 112, 104, 100]
    assert (search.largest, search.smallest_failed) == (100, 104)


def test_small_batches_are_found_exactly():
    for threshold in range(1, 32):
        search = Search()
        searched(search, lambda batch, threshold=threshold: batch <= threshold)
        assert (search.largest, search.smallest_failed) == (threshold, threshold + 1)


def test_smaller_batches_are_tried_where_the_first_does_not_fit():
    search = Search(start=64)
    assert searched(search, lambda batch: batch <= 3) == [64, 32, 16, 8, 4, 2, 3]
    nothing = Search(start=4)
    assert searched(nothing, lambda batch: False) == [4, 2, 1]
    assert (nothing.largest, nothing.end) == (None, End.FOUND)


def test_last_step_of_doubling_is_the_most_allowed():
    search = Search(start=3, most=20)
    assert searched(search, lambda batch: True) == [3, 6, 12, 20]
    assert search.end is End.CAPPED


def test_contradiction_is_said_in_a_sentence():
    search = Search()
    search.tell(24, True)
    search.tell(16, False)
    assert search.contradiction == "batch 24 fits and the smaller 16 does not"
    assert (search.next, search.end) == (None, End.CONTRADICTION)
    again = Search()
    again.tell(8, True)
    again.tell(8, False)
    assert again.contradiction == "batch 8 fitted at one time and did not at another"


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ({"start": 0}, "start 0 is no batch"),
        ({"start": 8, "most": 4}, "most 4 is below start 8"),
        ({"resolution": 1.0}, "resolution 1 is no share"),
        ({"resolution": -0.1}, "resolution -0.1 is no share"),
    ],
)
def test_numbers_that_cannot_work_are_refused(numbers, why):
    with pytest.raises(UsageError, match=why):
        Search(**numbers)
