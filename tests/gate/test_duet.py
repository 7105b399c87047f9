"""Two processes that take turns: who works when, what one hears when the other is gone, and a real pair of them."""

from __future__ import annotations

import socket
import threading
from collections import Counter

import pytest

from normbench.gate import duet as duets
from normbench.gate.arms import Side
from normbench.gate.duet import Baton, PartnerLost, PartnerSilent, order_of, release

BASE, HEAD = Side


def test_both_set_up_and_then_take_as_many_turns_in_a_random_order_that_both_know():
    order = order_of(100, seed=1)
    assert order == order_of(100, seed=1) != order_of(100, seed=2)
    pairs = [order[start : start + 2] for start in range(0, len(order), 2)]
    assert len(pairs) == 101
    assert all(set(pair) == set(Side) for pair in pairs)
    assert 30 < Counter(pair[0] for pair in pairs)[BASE] < 70


@pytest.fixture
def pair(monkeypatch):
    monkeypatch.setattr(duets, "SILENCE_S", 0.2)
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.settimeout(10)
    yield ours, theirs
    for end in (ours, theirs):
        end.close()


def test_one_works_at_a_time_in_the_order(pair):
    order = order_of(50, seed=0)
    worked, at_work = [], set()

    def work(side, connection):
        baton = Baton(connection, side, order)
        for _ in range(51):
            with baton:
                at_work.add(side)
                worked.append(side)
                assert at_work == {side}
                at_work.discard(side)

    threads = [threading.Thread(target=work, args=one) for one in zip(Side, pair, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert worked == order


def test_whoever_waits_hears_that_the_other_is_gone(pair):
    ours, theirs = pair
    theirs.close()
    with pytest.raises(PartnerLost), Baton(ours, HEAD, [BASE, HEAD]):
        pass


def test_whoever_hands_over_hears_it_too(pair):
    ours, theirs = pair
    theirs.close()
    with pytest.raises(PartnerLost), Baton(ours, BASE, [BASE, HEAD]):
        pass


def test_whoever_waits_for_too_long_says_so(pair):
    ours, _ = pair
    ours.settimeout(0.05)
    with pytest.raises(PartnerSilent, match="did not hand over"), Baton(ours, HEAD, [BASE, HEAD]):
        pass


def test_releasing_nobody_is_no_error(tmp_path):
    release(str(tmp_path / "turns"))
