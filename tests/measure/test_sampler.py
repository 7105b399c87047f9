"""Arms take turns: each once a turn, in random order that a seed fixes, with nothing but the call inside the clock."""

from __future__ import annotations

import mmap
from collections import Counter
from random import Random

import pytest

from measure.clockwork import FakeTimer
from normbench.errors import NormbenchError
from normbench.measure.plan import Cost, Schedule
from normbench.measure.sampler import (
    LONG_CALL_S,
    Call,
    Samples,
    first_calls,
    first_costs,
    in_turn,
    process_page_faults,
    take_repetition,
    warm_up,
)
from normbench.measure.timer import Sample


def no_faults() -> int:
    return 0


def repetition(timer, costs_s, *, turns=6, inner=1, seed=0, count_faults=no_faults):
    calls = {arm: Call(run=timer.call(arm, cost)) for arm, cost in costs_s.items()}
    schedule = Schedule(repetitions=1, turns=turns, inner=dict.fromkeys(calls, inner))
    return take_repetition(calls, timer, schedule, Random(seed), count_faults)


def order_of(seed: int, turns: int) -> list[str]:
    timer = FakeTimer()
    repetition(timer, {"a": 1.0, "b": 2.0, "c": 3.0}, turns=turns, seed=seed)
    return [event for event in timer.events if event not in ("start", "stop")]


def test_every_arm_is_sampled_exactly_once_a_turn():
    order = order_of(seed=0, turns=20)
    assert all(sorted(order[turn : turn + 3]) == ["a", "b", "c"] for turn in range(0, 60, 3))


def test_order_is_random_and_fixed_by_the_seed():
    assert order_of(seed=1, turns=20) == order_of(seed=1, turns=20)
    assert order_of(seed=1, turns=20) != order_of(seed=2, turns=20)


def test_no_arm_has_a_place_of_its_own():
    # Whoever always runs after the slowest finds another cache than whoever runs after itself. 300 of 900 turns are expected for each
    # place, with a standard deviation of 14.
    order = order_of(seed=3, turns=900)
    for place in range(3):
        assert all(230 < number < 370 for number in Counter(order[place::3]).values())


def test_sample_k_of_every_arm_is_of_the_same_turn():
    # Each call takes as long as its turn says: were turns mixed up, so would be the numbers.
    samples = repetition(FakeTimer(), {"a": [1.0, 2.0, 3.0], "b": [10.0, 20.0, 30.0]}, turns=3)
    assert samples["a"].time_s == [1, 2, 3]
    assert samples["b"].time_s == [10, 20, 30]


def test_sample_is_the_time_of_one_of_its_calls():
    samples = repetition(FakeTimer(), {"a": 0.5}, turns=2, inner=8)
    assert samples["a"].time_s == [0.5, 0.5]


def test_what_comes_before_is_done_before_each_sample_outside_the_clock():
    timer = FakeTimer()
    calls = {"a": Call(run=timer.call("run", 1.0), before=timer.call("before", 5.0))}
    samples = take_repetition(calls, timer, Schedule(repetitions=1, turns=2, inner={"a": 2}), Random(0), no_faults)
    assert timer.events == ["before", "start", "run", "run", "stop"] * 2
    assert samples["a"].time_s == [1, 1]


def test_page_faults_of_the_samples_alone_are_counted_arm_by_arm():
    timer, total = FakeTimer(), 0

    def count_faults() -> int:
        timer.events.append("count")
        return total

    def fault(number):
        def run():
            nonlocal total
            total += number
            timer.now_s += 1

        return run

    calls = {"many": Call(run=fault(7), before=fault(1000)), "none": Call(run=fault(0))}
    samples = take_repetition(calls, timer, Schedule(repetitions=1, turns=3, inner={"many": 2, "none": 1}), Random(0), count_faults)
    assert (samples["many"].page_faults, samples["none"].page_faults) == (3 * 2 * 7, 0)
    assert timer.events == ["count", "start", "stop", "count"] * 6, "the counter is read outside the clock"


def test_page_faults_of_this_process_are_seen():
    pages = 64
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        if hasattr(memory, "madvise") and hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        before = process_page_faults()
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1
        assert process_page_faults() - before >= pages


def test_host_times_are_kept_where_there_are_any():
    samples = Samples()
    samples.add(Sample(1.0, 0.25))
    samples.add(Sample(2.0, 0.5))
    assert (samples.time_s, samples.host_s) == ([1, 2], [0.25, 0.5])
    samples = Samples()
    samples.add(Sample(1.0))
    assert (samples.time_s, samples.host_s) == ([1], [])


@pytest.mark.parametrize("time_s", [0.0, -1e-9, float("nan")])
def test_sample_of_no_time_is_refused(time_s):
    with pytest.raises(NormbenchError, match="shorter than the clock can see"):
        Samples().add(Sample(time_s))


def warmed(costs_s, before_s=None, **options):
    timer = FakeTimer()
    before = None if before_s is None else timer.call("before", before_s)
    costs = warm_up({"a": Call(run=timer.call("run", costs_s), before=before)}, timer, clock=timer.clock, **options)
    return timer.events.count("run"), costs["a"]


# The last number repeats for ever.
@pytest.mark.parametrize(
    ("costs_s", "calls"),
    [
        # Two alike: settled after the second, never after the first.
        ([1e-3], 2),
        # The first call meets untouched pages.
        ([5e-3, 1e-3], 3),
        # Within 5 % of the one before; and just not.
        ([1.0e-3, 1.04e-3, 2e-3], 2),
        ([1.0e-3, 1.06e-3, 2e-3, 4e-3], 5),
        # A frequency that climbs.
        ([4e-3, 3e-3, 2e-3, 1e-3], 5),
    ],
)
def test_warm_up_ends_when_two_calls_in_a_row_are_alike(costs_s, calls):
    made, cost = warmed(costs_s)
    assert made == calls
    assert cost.call_s == pytest.approx(costs_s[min(calls, len(costs_s)) - 1])


def test_warm_up_ends_when_its_time_is_spent():
    # 4, 8, 4, 8, ... ms never settle; 4 + 8 + 4 + 8 + 4 + 8 ms are the first to exceed 30.
    made, cost = warmed([4e-3, 8e-3] * 10)
    assert (made, cost.call_s) == (6, pytest.approx(8e-3))
    assert warmed([4e-3, 8e-3] * 10, settle_s=0.01)[0] == 2


def test_call_longer_than_the_time_is_made_once():
    assert warmed([3.0, 1.0])[0] == 1


def test_warm_up_of_a_call_that_takes_no_time_ends():
    assert warmed([0.0])[0] == 2


def costs_of(**costs_s):
    """Return how often each arm was called, what its next call costs and what warming up takes a repetition, in seconds."""
    timer = FakeTimer()
    costs, warm_up_s = first_costs({arm: Call(run=timer.call(arm, cost)) for arm, cost in costs_s.items()}, timer, clock=timer.clock)
    return {arm: timer.events.count(arm) for arm in costs_s}, {arm: cost.call_s for arm, cost in costs.items()}, warm_up_s


def test_first_call_is_no_measure_of_the_next_however_long_it_took():
    """A compilation of 60 s, or a library that is loaded, says nothing of a call of 1 ms."""
    calls, costs, warm_up_s = costs_of(compiled=[60.0, 1e-3], plain=[0.3, 2e-3])
    assert costs == {"compiled": pytest.approx(1e-3), "plain": pytest.approx(2e-3)}
    assert calls == {"compiled": 3, "plain": 3}
    assert warm_up_s == pytest.approx(2 * 1e-3 + 2 * 2e-3), "what was done once is not done in every repetition"


def test_long_calls_are_warmed_up_by_their_first_one_unless_that_took_far_longer_than_the_quickest():
    long_s = 2 * LONG_CALL_S
    calls, costs, warm_up_s = costs_of(compiled=[60.0, long_s], plain=[long_s], other=[4 * long_s])
    assert calls == {"compiled": 2, "plain": 2, "other": 1}
    assert costs == {"compiled": pytest.approx(long_s), "plain": pytest.approx(long_s), "other": pytest.approx(4 * long_s)}
    assert warm_up_s == pytest.approx(6 * long_s)


def test_warm_up_does_what_comes_before_each_call_and_tells_its_cost():
    made, cost = warmed(1e-3, before_s=0.25)
    assert made == 2
    assert cost == Cost(call_s=pytest.approx(1e-3), before_s=pytest.approx(0.25))


def test_warm_up_tells_the_cost_of_launching():
    class Launching(FakeTimer):
        def sample(self, call, inner):
            return Sample(super().sample(call, inner).time_s, 2e-5)

    timer = Launching()
    costs = warm_up({"a": Call(run=timer.call("a", 1e-3))}, timer, clock=timer.clock)
    assert costs["a"].launch_s == 2e-5


def test_every_arm_is_warmed_up():
    timer = FakeTimer()
    costs = warm_up({arm: Call(run=timer.call(arm, cost)) for arm, cost in (("a", 1e-3), ("b", 2e-3))}, timer, clock=timer.clock)
    assert {arm: cost.call_s for arm, cost in costs.items()} == pytest.approx({"a": 1e-3, "b": 2e-3})


def test_first_calls_are_one_of_each_arm_with_what_comes_before():
    timer = FakeTimer()
    calls = {"a": Call(run=timer.call("a", [3.0, 1.0]), before=timer.call("before", 0.5)), "b": Call(run=timer.call("b", 2.0))}
    costs = first_calls(calls, timer, clock=timer.clock)
    assert [event for event in timer.events if event in calls or event == "before"] == ["before", "a", "b"]
    assert (costs["a"].call_s, costs["a"].before_s, costs["b"].call_s) == pytest.approx((3.0, 0.5, 2.0))


def test_steps_before_a_call_run_in_turn_and_none_is_no_step():
    done = []
    first, second = (lambda: done.append(1)), (lambda: done.append(2))
    assert in_turn() is in_turn(None, None) is None
    assert in_turn(None, first) is first
    in_turn(second, None, first)()
    assert done == [2, 1]
