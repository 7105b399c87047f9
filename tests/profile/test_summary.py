"""Several steps become one profile: fractions of the quieter ones, times of those without the profiler."""

import pytest
from watched_steps import MODULES, event, profile_of, step, training_step, turn

from normbench.profile.kinds import ModuleKind
from normbench.profile.summary import Basis, Module, summarise


def split_step(norm_s):
    """Return a forward of 10 s of which a norm takes so many."""
    return [step(0, 10), event("module", "", 0, 10), event("module", "norm", 0, norm_s), event("module", "linear", norm_s, 10)]


def test_parts_add_up_to_a_step_without_the_profiler():
    profile = profile_of(training_step(), plain_s=80)
    assert sum(cost.host_s for cost in profile.costs) == pytest.approx(80)
    assert profile.total_s == profile.host_s == 80


def test_the_share_of_norms_is_that_of_both_phases():
    norm = profile_of(training_step(), plain_s=80).norm
    assert norm.share == pytest.approx((10 + 4 + 12) / 100)
    assert norm.norm_s == pytest.approx(0.26 * 80)
    assert norm.norm_s / norm.total_s == pytest.approx(norm.share)
    assert (norm.calls, norm.basis) == (1, Basis.HOST)


def test_share_and_rest_are_the_whole():
    profile = profile_of(training_step())
    rest_s = sum(cost.host_s for cost in profile.costs if profile.kind(cost) is not ModuleKind.NORM)
    assert profile.norm.norm_s + rest_s == pytest.approx(profile.norm.total_s)


def test_on_a_device_the_share_is_one_of_the_kernels_time():
    profile = profile_of(training_step(kernels=True, backward_thread=9), basis=Basis.DEVICE, plain_s=80, host_s=50)
    assert profile.device_s == 39.5
    assert profile.norm.total_s == 39.5
    assert profile.norm.norm_s == pytest.approx(10.5)
    assert profile.norm.basis is Basis.DEVICE
    # Device and host apart: the host's parts add up to its own time, which ends before the device's.
    assert sum(cost.host_s for cost in profile.costs) == pytest.approx(50)
    assert profile.total_s == 80


def test_without_a_device_its_time_is_not_known():
    assert profile_of(training_step()).device_s is None


def test_slow_steps_are_left_out():
    disturbed = turn(split_step(9), profiled_s=99)
    profile = summarise([turn(split_step(2), profiled_s=10), disturbed, turn(split_step(2), profiled_s=11)], MODULES, Basis.HOST)
    assert (profile.steps, profile.kept) == (3, 2)
    assert profile.norm.share == pytest.approx(0.2)


def test_the_interval_is_students_over_steps():
    turns = [turn(split_step(norm_s)) for norm_s in (1, 2, 3)]
    norm = summarise(turns, MODULES, Basis.HOST).norm
    # Three shares with mean 0.2 and standard deviation 0.1; t of 2 degrees of freedom at 97.5 % is 4.303.
    assert norm.share == pytest.approx(0.2)
    assert norm.high == pytest.approx(0.2 + 4.303 * 0.1 / 3**0.5, rel=1e-3)
    assert norm.low == 0


def test_one_step_has_no_interval():
    norm = profile_of(training_step()).norm
    assert (norm.low, norm.high) == (None, None)


def test_a_network_without_norms_has_a_share_of_0():
    modules = {path: module for path, module in MODULES.items() if path != "norm"} | {
        "norm": Module(class_name="Tanh", kind=ModuleKind.OTHER)
    }
    norm = profile_of(training_step(), modules).norm
    assert (norm.share, norm.norm_s, norm.calls) == (0, 0, 0)


def test_a_share_is_not_known_where_no_norm_was_seen_to_run():
    hidden = [step(0, 10), event("module", "", 1, 9)]
    profile = profile_of(hidden)
    assert profile.norm is None
    assert profile.unseen == ("norm",)


def test_norms_that_did_not_run_are_told():
    modules = MODULES | {"spare": Module(class_name="LayerNorm", kind=ModuleKind.NORM)}
    profile = profile_of(training_step(), modules)
    assert profile.unseen == ("spare",)
    assert profile.norm.calls == 1


def test_the_slowdown_is_a_ratio_of_turns():
    turns = [turn(training_step(), plain_s=plain_s, profiled_s=1.1 * plain_s) for plain_s in (10, 40, 90)]
    assert summarise(turns, MODULES, Basis.HOST).slowdown.estimate == pytest.approx(1.1)


def test_counts_of_steps_are_averaged():
    once, twice = split_step(2), [*split_step(2), event("operator", "aten::add", 3, 4), event("operator", "aten::add", 5, 6)]
    profile = summarise([turn(once), turn(twice)], MODULES, Basis.HOST)
    (added,) = (cost for cost in profile.costs if cost.operator == "aten::add")
    assert added.calls == 1
