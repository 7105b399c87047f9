"""Every moment of a step belongs to one module, one operator and one phase."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched_steps import event, step, training_step

from normbench.profile.costs import BETWEEN, ENGINE, Phase, step_costs


def seconds(events, **wanted):
    """Return host seconds by module, of the costs that have the wanted fields."""
    found = defaultdict(float)
    for cost in step_costs(events):
        if all(getattr(cost, name) == value for name, value in wanted.items()):
            found[cost.module] += cost.host_s
    return dict(found)


def test_forward_time_belongs_to_the_innermost_module():
    forward = seconds(training_step(), phase=Phase.FORWARD, is_loss=False)
    assert forward == {None: 2 + 1 + 2 + 2, "": 4, "norm": 10, "linear": 20}


def test_what_a_module_does_between_its_operators_is_its_own():
    between = seconds(training_step(), operator=BETWEEN, phase=Phase.FORWARD)
    assert (between["norm"], between["linear"]) == (2, 5)


def test_backward_time_belongs_to_the_module_whose_forward_made_the_node():
    backward = seconds(training_step(), phase=Phase.BACKWARD, is_loss=False)
    assert backward == {"linear": 1 + 30 + 2 + 2, "norm": 4 + 12}


def test_of_operators_with_one_number_the_last_one_made_the_node():
    # The reshape needs no node of its own, so the next operator, another module's, gets the same number.
    events = [
        step(0, 20),
        event("module", "first", 1, 3),
        event("operator", "aten::detach", 1, 2, sequence=5),
        event("module", "second", 4, 6),
        event("operator", "aten::mul", 4, 5, sequence=5),
        event("node", "MulBackward0", 10, 14, sequence=5),
    ]
    assert seconds(events, phase=Phase.BACKWARD) == {"second": 4}


def test_adding_to_a_gradient_belongs_to_the_module_of_the_node_before_it():
    assert seconds(training_step(), operator="torch::autograd::AccumulateGrad") == {"linear": 2}


def test_what_the_engine_does_before_a_node_is_that_nodes():
    assert seconds(training_step(), operator=ENGINE) == {"linear": 1 + 2, "norm": 4}


def test_before_its_first_node_the_engine_has_not_begun():
    # Getting there, 43 s minus 41 s, and what follows the last node are nobody's.
    assert seconds(training_step(), operator=BETWEEN)[None] == 2 + 1 + 2 + 2


def test_an_operator_between_nodes_is_no_time_of_the_engine():
    events = [
        step(0, 20),
        event("node", "MulBackward0", 2, 4),
        event("operator", "aten::add_", 5, 8),
        event("node", "MulBackward0", 9, 12),
    ]
    assert seconds(events, operator=ENGINE) == {None: 2}
    assert sum(seconds(events).values()) == 20


def test_the_engine_of_a_gpu_works_in_a_thread_of_its_own_and_nothing_else_changes():
    assert seconds(training_step(backward_thread=9)) == seconds(training_step())


def test_numbers_of_two_threads_are_not_confused():
    events = [
        step(0, 20),
        event("module", "here", 1, 3),
        event("operator", "aten::mul", 1, 2, sequence=5),
        event("module", "recomputed", 4, 6, thread=2),
        event("operator", "aten::mul", 4, 5, sequence=5, thread=2),
        event("node", "MulBackward0", 10, 14, sequence=5, forward_thread=2),
    ]
    assert seconds(events, phase=Phase.BACKWARD)["recomputed"] == 4


def test_what_is_recomputed_in_the_backward_pass_is_of_that_phase_and_of_its_module():
    events = [
        step(0, 20),
        event("node", "CheckpointBackward", 10, 18, sequence=5),
        event("module", "block", 11, 15),
        event("operator", "aten::mul", 12, 14, sequence=6),
    ]
    assert seconds(events, phase=Phase.BACKWARD)["block"] == 4


def test_the_loss_is_what_a_training_step_computes_outside_the_network_before_its_backward():
    assert seconds(training_step(), is_loss=True) == {None: 4 + 4}


def test_a_loss_operator_inside_the_network_is_the_loss_with_all_that_it_calls():
    events = [
        step(0, 20),
        event("module", "", 1, 15),
        event("operator", "aten::cross_entropy_loss", 2, 9, sequence=5),
        event("operator", "aten::log_softmax", 3, 5, sequence=5),
        event("operator", "aten::add", 10, 12, sequence=6),
    ]
    assert seconds(events, is_loss=True) == {"": 7}


def test_without_a_backward_pass_what_runs_outside_the_network_is_no_loss():
    events = [step(0, 20), event("module", "", 1, 15), event("operator", "aten::argmax", 16, 18)]
    assert seconds(events, is_loss=True) == {}


def test_what_follows_the_backward_pass_is_no_loss():
    events = [step(0, 20), event("node", "MulBackward0", 2, 4), event("operator", "Optimizer.step#SGD.step", 5, 9)]
    assert seconds(events, is_loss=True) == {}


def test_a_call_of_the_driver_is_part_of_the_operator_that_made_it():
    (cost,) = (cost for cost in step_costs(training_step()) if cost.operator == "aten::mm")
    assert (cost.host_s, cost.calls) == (28, 1)


def test_kernels_are_counted_and_timed_where_they_were_launched():
    costs = step_costs(training_step(kernels=True))
    norm = [cost for cost in costs if cost.module == "norm"]
    assert sum(cost.kernels for cost in norm) == 4
    assert sum(cost.device_s for cost in norm) == 0.5 + 3 + 1 + 6
    assert sum(cost.device_s for cost in costs) == 0.5 + 4 + 9 + 1 + 1 + 18 + 6


def test_operators_are_outermost_when_no_operator_called_them():
    called = {cost.operator: (cost.calls, cost.outermost) for cost in step_costs(training_step()) if cost.module == "norm"}
    assert called["aten::layer_norm"] == (1, 1)
    assert called["aten::native_layer_norm"] == (1, 0)
    assert called["aten::native_layer_norm_backward"] == (1, 1)


@st.composite
def nested(draw, start=0, end=1000, depth=0):
    """Draw events of every kind inside an interval, side by side and inside each other."""
    count = draw(st.integers(0, 3)) if depth < 4 and end - start >= 8 else 0
    cuts = sorted(draw(st.lists(st.integers(start, end), min_size=2 * count, max_size=2 * count)))
    events = []
    for low, high in zip(cuts[::2], cuts[1::2], strict=True):
        kind = draw(st.sampled_from(["module", "node", "operator", "runtime"]))
        sequence = draw(st.none() | st.integers(0, 3))
        events.append(event(kind, draw(st.sampled_from(["a", "b", "aten::mse_loss"])), low, high, sequence=sequence))
        events += draw(nested(low, high, depth + 1))
    return events


@given(nested())
def test_costs_add_up_to_the_step_whatever_ran(events):
    costs = step_costs([step(0, 1000), *events])
    assert sum(cost.host_s for cost in costs) == pytest.approx(1000, rel=1e-12)
    assert all(cost.host_s >= 0 for cost in costs)
