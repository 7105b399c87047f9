"""Gauges are read from a thread at regular moments; long watches keep few of them, and reading stays a small part of the time."""

from __future__ import annotations

from itertools import count
from time import sleep
from types import SimpleNamespace

import pytest

from normbench.host.watch import Watch


def counting():
    """Return a gauge that shows 1, 2, 3 and so on."""
    upcoming = count(1)
    return lambda: (next(upcoming), None)


def watch(gauges, moments=3, **options):
    """Watch until some moments have been seen."""
    found = Watch(gauges, interval_s=0.001, **options)
    found.start()
    for _ in range(5000):
        if found.moments >= moments:
            break
        sleep(0.001)
    return found.stop()


def test_each_moment_has_its_time_and_a_value_of_each_gauge():
    seen = watch({"one": counting(), "same": lambda: (7, None)})
    moments = len(seen.at_s)
    assert moments >= 3
    assert seen.at_s == sorted(seen.at_s)
    assert seen.at_s[0] >= 0.001
    assert seen.values == {"one": list(range(1, moments + 1)), "same": [7] * moments}
    assert seen.reasons == {}


def test_a_gauge_without_a_value_leaves_a_gap_and_its_reason():
    answers = iter([(5, None), (None, "asleep"), (6, None)])
    seen = watch({"drowsy": lambda: next(answers, (8, None))})
    assert seen.values["drowsy"][:3] == [5, None, 6]
    assert seen.read("drowsy")[:2] == [5, 6]
    assert seen.reasons == {"drowsy": "asleep"}


def test_a_watch_that_ends_before_the_first_interval_has_one_moment():
    found = Watch({"one": counting()}, interval_s=60)
    found.start()
    seen = found.stop()
    assert seen.values == {"one": [1]}
    assert len(seen.at_s) == 1


def test_a_long_watch_drops_every_other_moment_and_has_longer_intervals():
    found = Watch({"one": counting(), "two": counting()}, interval_s=60, limit=8)
    found.start()
    for _ in range(8):
        found._read_once()
    assert found.moments == 4
    assert found._interval_s == 120
    for _ in range(4):
        found._read_once()
    seen = found.stop()
    # 2, 4, 6, 8 and then 9 to 12 are eight again, of which four stay.
    assert seen.values == {"one": [4, 8, 10, 12], "two": [4, 8, 10, 12]}
    assert len(seen.at_s) == 4


def test_it_is_never_longer_than_its_limit():
    lengths = []
    found = Watch({"one": counting()}, interval_s=60, limit=10)
    found.start()
    for _ in range(200):
        found._read_once()
        lengths.append(found.moments)
    found.stop()
    assert max(lengths) < 10
    assert min(lengths[9:]) >= 5


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_what_takes_long_is_read_less_often(share, monkeypatch):
    # Each reading takes 2 s by this clock; the thread's pauses are only noted.
    now = count(0, 2.0)
    monkeypatch.setattr("normbench.host.watch.time", SimpleNamespace(perf_counter=lambda: next(now)))
    found = Watch({}, interval_s=1.0, share=share)
    found._at_s, found._values, found._started_s = [], {}, 0.0
    pauses = []

    class Pauses:
        def wait(self, pause_s):
            pauses.append(pause_s)
            return len(pauses) > 3

    found._done = Pauses()
    found._read_until_done()
    later_s = 1.0 if share == 1.0 else 6.0
    assert pauses == [1.0, later_s, later_s, later_s]
