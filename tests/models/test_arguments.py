"""What a norm takes, read off its forward."""

import pytest
from torch import nn

from normbench.models.arguments import first_input, further_inputs


def module(forward):
    return type("Module", (nn.Module,), {"forward": forward})()


@pytest.mark.parametrize(
    ("forward", "first", "further"),
    [
        (lambda self, x: x, "x", ()),
        (lambda self, hidden_states, gate=None: hidden_states, "hidden_states", ("gate",)),
        (lambda self, x, *more, mask=None, **rest: x, "x", ("*more", "mask", "**rest")),
        (lambda self, x, /: x, None, ()),
        (lambda self, *inputs: inputs, None, ()),
    ],
)
def test_names_are_those_that_a_caller_could_use(forward, first, further):
    assert first_input(module(forward)) == first
    assert further_inputs(module(forward)) == further
