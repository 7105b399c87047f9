"""Every call of every module is a range of the profiler's record, and afterwards the model is as it was."""

import inspect

import pytest
import torch
from torch import nn

from normbench.profile.ranges import module_ranges


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """Keep the profiler silent: its library reads the level once in a process, and others' tests in this one are about its silence."""
    monkeypatch.setenv("KINETO_LOG_LEVEL", "6")


class Doubling(nn.Module):
    def forward(self, x, *, times=2):
        return x * times


def recorded(model, *inputs, **options):
    """Return the names of ranges seen during a call, in order, and the paths of names."""
    with module_ranges(model) as paths, torch.profiler.profile(acc_events=False) as profiler:
        model(*inputs, **options)
    return [event.name for event in profiler.events() if event.name in paths], paths


def test_calls_are_recorded_under_the_path_of_their_module():
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU()))
    names, paths = recorded(model, torch.ones(2, 4))
    assert names == ["module: Sequential", "module: 0", "module: 1", "module: 1.0"]
    assert [paths[name] for name in names] == ["", "0", "1", "1.0"]


def test_a_module_that_is_called_twice_is_recorded_twice():
    shared = nn.Tanh()
    names, _ = recorded(nn.Sequential(shared, shared), torch.ones(2))
    assert names.count("module: 0") == 2


def test_arguments_and_results_pass_through():
    model = Doubling()
    with module_ranges(model):
        assert model(torch.ones(1), times=3) == 3
        assert list(inspect.signature(model.forward).parameters) == ["x", "times"]


def test_afterwards_no_module_has_a_forward_of_its_own():
    model = nn.Sequential(nn.Linear(4, 4), Doubling())
    with pytest.raises(RuntimeError, match="shapes"), module_ranges(model):
        model(torch.ones(2, 3))
    assert all("forward" not in vars(module) for module in model.modules())


def test_a_forward_that_was_put_in_by_hand_is_kept():
    model = Doubling()
    model.forward = lambda x: x * 5
    by_hand = model.forward
    names, _ = recorded(model, torch.ones(1))
    assert names == ["module: Doubling"]
    assert model.forward is by_hand


def test_a_compiled_network_is_one_range_and_nothing_is_compiled_again():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    compiled = torch.compile(model, backend="eager")
    compiled(torch.ones(2, 4))
    with torch.compiler.set_stance("fail_on_recompile"):
        names, _ = recorded(compiled, torch.ones(2, 4))
    assert names == ["module: OptimizedModule"]


def test_a_module_that_is_compiled_in_place_is_left_alone():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    model[0].compile(backend="eager")
    names, _ = recorded(model, torch.ones(2, 4))
    assert names == ["module: Sequential", "module: 1"]
