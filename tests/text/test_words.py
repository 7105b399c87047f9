"""A word is one of those that there are, or the user is told which those are."""

from __future__ import annotations

from enum import StrEnum

import pytest

from normbench.errors import UsageError
from normbench.text.words import member, members, one_of, refuse_providers, some_of


class Fruit(StrEnum):
    APPLE = "apple"
    PEAR = "pear"


def test_known_word_is_returned_and_another_one_answered_by_those_there_are():
    assert one_of(("a", "b"), "b", "letter") == "b"
    with pytest.raises(UsageError, match=r"^letter 'c' is unknown; known are a, b$"):
        one_of(("a", "b"), "c", "letter")


def test_member_is_that_of_the_value_or_the_member_itself():
    assert member(Fruit, "pear", "fruit") is Fruit.PEAR
    assert member(Fruit, Fruit.PEAR, "fruit") is Fruit.PEAR
    with pytest.raises(UsageError, match=r"^fruit 'plum' is unknown; known are apple, pear$"):
        member(Fruit, "plum", "fruit")


def test_list_gives_each_word_once_in_the_order_typed():
    assert some_of(("a", "b"), "b, a,,b", "letter") == ["b", "a"]
    assert members(Fruit, "pear,apple", "fruit") == (Fruit.PEAR, Fruit.APPLE)


@pytest.mark.parametrize("text", ["all", "b,all"])
def test_word_for_all_stands_for_every_known_one(text):
    assert some_of(("a", "b"), text, "letter", every="all") == ["a", "b"]
    assert members(Fruit, "all", "fruit", every="all") == (Fruit.APPLE, Fruit.PEAR)


@pytest.mark.parametrize(
    ("text", "every", "why"),
    [
        ("a,c", None, "letter 'c' is unknown; known are a, b$"),
        ("all", None, "letter 'all' is unknown; known are a, b$"),
        ("c", "all", "letter 'c' is unknown; known are a, b, all$"),
        (" , ", None, "letter is empty; known are a, b$"),
        ("", "all", "letter is empty; known are a, b, all$"),
    ],
)
def test_list_with_a_word_that_is_none_or_without_any_is_refused(text, every, why):
    with pytest.raises(UsageError, match=f"^{why}"):
        some_of(("a", "b"), text, "letter", every=every)


@pytest.mark.parametrize(
    ("names", "why"), [((), "no provider was asked for"), (("aten", "eager", "aten"), "aten, eager, aten name one twice")]
)
def test_providers_are_some_and_each_once(names, why):
    refuse_providers(("aten", "eager"))
    with pytest.raises(UsageError, match=why):
        refuse_providers(names)
