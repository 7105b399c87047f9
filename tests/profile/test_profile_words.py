"""A profile in words for people and in plain values for machines."""

import json

import pytest
from watched_steps import MODULES, event, profile_of, step, training_step

from normbench.profile.kinds import ModuleKind
from normbench.profile.summary import Basis, Module
from normbench.profile.words import count_text, headlines, plain_profile


def test_the_first_lines_say_how_long_a_step_takes_and_what_share_norms_have():
    lines = headlines(profile_of(training_step(), plain_s=80, profiled_s=88))
    assert lines[0] == "a training step takes 80.0 s; 1 turns, the quieter 1 kept"
    assert lines[1] == "the profiler makes it 1.10 times as long (no interval)"
    assert lines[2] == "norms take 26 % of it (no interval): 20.8 s in 1 calls"
    assert lines[3].startswith("7 operators, 6 of them called by no other operator; the step ran on a CPU")


def test_on_a_device_host_and_device_are_told_apart():
    lines = headlines(profile_of(training_step(kernels=True), basis=Basis.DEVICE, plain_s=80, host_s=50))
    assert lines[0].startswith("a training step takes 80.0 s: the host 50.0 s until all is queued, kernels 39.5 s on the device")
    assert lines[2].startswith("norms take 27 % of the kernels' time")
    assert lines[3].endswith("; 8 kernels")


def test_norms_that_did_not_run_are_named():
    modules = MODULES | {"spare": Module(class_name="LayerNorm", kind=ModuleKind.NORM)}
    assert headlines(profile_of(training_step(), modules))[-1] == "not seen to run: 1 norms, such as spare"


def test_a_share_that_is_not_known_is_no_number():
    profile = profile_of([step(0, 10), event("module", "", 1, 9)])
    assert headlines(profile)[2].startswith("the share of norms is not known")
    assert plain_profile(profile)["norm"] is None


def test_counts_are_whole_where_all_steps_made_as_many():
    assert (count_text(940.0), count_text(2.5)) == ("940", "2.5")


@pytest.mark.parametrize("basis", list(Basis))
def test_plain_values_are_strict_json_and_give_a_reason_for_what_is_null(basis):
    plain = plain_profile(profile_of(training_step(kernels=True), basis=basis))
    assert json.loads(json.dumps(plain, allow_nan=False)).keys() == plain.keys()
    empty = {name for name in ("device_s", "kernels") if plain[name] is None}
    assert empty == plain["reasons"].keys() == (set() if basis is Basis.DEVICE else {"device_s", "kernels"})


def test_plain_parts_add_up_to_the_step():
    plain = plain_profile(profile_of(training_step(), plain_s=80))
    for parts in (plain["by_kind"], plain["by_operator"]):
        assert sum(part["forward_s"] + part["backward_s"] for part in parts) == pytest.approx(plain["host_s"])
