"""Words as lists, where none is asked for twice, and as options, which say the same as the choices they are made of."""

from __future__ import annotations

import pytest
from typed import typed

from normbench.text.choices import Choices, split, words_of


@pytest.mark.parametrize(("text", "parts"), [("a, b", ["a", "b"]), ("a,,b,a", ["a", "b"]), (" , ", []), ("", [])])
def test_list_holds_each_word_once_in_the_order_typed(text, parts):
    assert split(text) == parts


CHOSEN = Choices(tier="throughput", nproc=2, global_batch=8, checkpointing=True, network="gpt2", weight_dtype="float32", budget=2.5)


def test_options_say_what_was_chosen_and_leave_out_defaults():
    words = "--tier throughput --network gpt2 --checkpointing --nproc 2 --global-batch 8 --weight-dtype float32 --budget 2.5"
    assert words_of(CHOSEN) == words.split()
    assert words_of(Choices()) == []


def test_options_that_are_always_said_are_said_as_a_user_would():
    assert words_of(Choices(), always=("pass_", "budget", "seed")) == ["--pass", "forward,forward_backward", "--budget", "8", "--seed", "0"]


@pytest.mark.parametrize("choices", [Choices(), CHOSEN], ids=["defaults", "others"])
def test_options_are_read_as_the_choices_that_they_were_made_of(choices):
    assert typed(words_of(choices)) == typed(words_of(choices, always=("grid", "seed", "cache"))) == choices
