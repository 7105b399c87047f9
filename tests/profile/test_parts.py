"""Costs added up by kind, by module, by operator and by norm."""

import pytest
from watched_steps import MODULES, event, profile_of, step, training_step

from normbench.cases.case import Case
from normbench.cases.traffic import bytes_moved
from normbench.profile.costs import BETWEEN
from normbench.profile.kinds import ModuleKind
from normbench.profile.parts import by_kind, by_module, by_operator, launches, norm_parts
from normbench.profile.summary import Basis, Module


def layered():
    """Return a profile of 10 s of two blocks with a norm each that takes 2 s."""
    events = [step(0, 10), event("module", "", 0, 10)]
    for layer in range(2):
        start = 5 * layer
        events += [event("module", f"h.{layer}", start, start + 5), event("module", f"h.{layer}.ln", start, start + 2)]
    norms = {f"h.{layer}.ln": _norm(Case.make("layer_norm", "forward", (4, 8), "float32")) for layer in range(2)}
    others = {path: Module(class_name="Block", kind=ModuleKind.OTHER) for path in ("", "h", "h.0", "h.1")}
    return profile_of(events, others | norms, plain_s=10)


def _norm(*cases):
    return Module(class_name="LayerNorm", kind=ModuleKind.NORM, norm_cases=cases)


@pytest.mark.parametrize("parts_of", [by_kind, by_operator])
def test_parts_add_up_to_the_step(parts_of):
    profile = profile_of(training_step(kernels=True), basis=Basis.DEVICE, plain_s=80)
    parts = parts_of(profile)
    assert sum(part.host_s for part in parts) == pytest.approx(80)
    assert sum(part.device_s for part in parts) == pytest.approx(39.5)
    assert sum(part.share for part in parts) == pytest.approx(1)


def test_each_kind_has_its_phases():
    parts = {part.name: part for part in by_kind(profile_of(training_step(), plain_s=100))}
    assert parts.keys() == {"feed-forward", "norm", "loss", "other"}
    assert (parts["norm"].forward_s, parts["norm"].backward_s) == pytest.approx((10, 16))
    assert (parts["loss"].forward_s, parts["loss"].backward_s) == pytest.approx((4, 4))
    assert parts["norm"].calls == 1


def test_operators_come_longest_first_and_without_what_they_call():
    parts = by_operator(profile_of(training_step(), plain_s=100))
    assert [part.share for part in parts] == sorted((part.share for part in parts), reverse=True)
    by_name = {part.name: part for part in parts}
    assert by_name["aten::layer_norm"].host_s == pytest.approx(2)
    assert by_name["aten::native_layer_norm"].host_s == pytest.approx(6)
    assert by_name["AddmmBackward0"].host_s == pytest.approx(2)


def test_a_module_has_all_that_is_in_it_and_like_layers_are_one():
    parts = {part.name: part for part in by_module(layered())}
    assert list(parts) == ["", "h", "h.*", "h.*.ln"]
    assert [part.host_s for part in parts.values()] == pytest.approx([10, 10, 10, 4])
    assert [part.calls for part in parts.values()] == [1, 0, 2, 2]


def test_norms_have_their_shapes_and_the_fewest_bytes_they_can_move():
    (norm,) = norm_parts(layered())
    assert (norm.part.name, norm.part.calls, norm.norm, norm.shapes, norm.dtypes) == ("h.*.ln", 2, "layer_norm", ("4x8",), ("float32",))
    assert norm.bytes == 2 * bytes_moved(Case.make("layer_norm", "forward", (4, 8), "float32"))
    assert norm.gbps == pytest.approx(norm.bytes / 4 / 1e9)


def test_in_a_training_step_the_bytes_are_those_of_both_passes():
    case = Case.make("layer_norm", "forward", (4, 8), "float32")
    (norm,) = norm_parts(profile_of(training_step(), MODULES | {"norm": _norm(case)}))
    assert norm.bytes == bytes_moved(Case.make("layer_norm", "forward_backward", (4, 8), "float32"))


def test_on_a_device_bandwidth_is_over_the_kernels_time():
    case = Case.make("layer_norm", "forward", (4, 8), "float32")
    (norm,) = norm_parts(profile_of(training_step(kernels=True), MODULES | {"norm": _norm(case)}, Basis.DEVICE))
    assert norm.gbps == pytest.approx(norm.bytes / 10.5 / 1e9)


def test_bytes_are_not_known_where_a_call_has_no_case():
    (norm,) = norm_parts(profile_of(training_step()))
    assert (norm.bytes, norm.gbps, norm.norm) == (None, None, "LayerNorm")


def test_norms_that_did_not_run_have_no_part():
    modules = MODULES | {"spare": _norm()}
    assert [norm.part.name for norm in norm_parts(profile_of(training_step(), modules))] == ["norm"]


def test_operators_and_kernels_are_counted_and_modules_are_not():
    called, outermost, kernels = launches(profile_of(training_step(kernels=True), basis=Basis.DEVICE))
    # Six operators of aten and the function of one node; native_layer_norm is called by another.
    assert (called, outermost, kernels) == (7, 6, 8)
    assert BETWEEN in {part.name for part in by_operator(profile_of(training_step()))}
