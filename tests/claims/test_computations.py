"""The short computations give figures that follow from the formulas."""

from __future__ import annotations

import pytest
import torch

from normbench.claims.computations import computed

pytestmark = pytest.mark.usefixtures("one_thread")


def figures(name, **options):
    return {figure: value.estimate for figure, value in computed(name, **options).items()}


def test_generator_is_left_as_it_was():
    before = torch.get_rng_state()
    computed("layer_norm_by_hand")
    assert torch.equal(before, torch.get_rng_state())


def test_layer_norm_by_hand_agrees_with_the_framework():
    found = figures("layer_norm_by_hand")
    assert 0 < found["max_abs"] < 5e-6
    assert found["std"] == pytest.approx(1, abs=1e-3)


def test_mean_square_of_rms_norm_is_1():
    assert figures("mean_square")["mean_square"] == pytest.approx(1, abs=1e-4)


def test_range_in_float16_is_the_same_without_an_offset():
    assert figures("range_in_float16")["centred"] == pytest.approx(1, abs=0.01)


def test_qk_norm_bounds_logits_and_keeps_entropy():
    found = figures("qk_norm")
    assert found["largest_logit_spread"] < 1e-3
    assert found["largest_over_root"] <= 1
    assert found["plain_entropy"] < 0.1
    assert found["qk_norm_entropy"] == pytest.approx(1, abs=0.01)


def test_qk_norm_has_two_weights_of_a_heads_width():
    assert figures("qk_norm_parameters")["over_head_width"] == 2


def test_share_that_two_savings_imply():
    found = figures("implied_share", op_saved=0.15, model_saved=[0.07, 0.09])
    assert found == pytest.approx({"least_share": 0.4667, "most_share": 0.6}, abs=1e-4)


def test_operations_are_counted_per_pass():
    found = figures("operations_saved")
    # Of 7 operations an element LayerNorm keeps 4 as RMSNorm: no sum, no subtraction, no bias.
    assert found["forward_percent"] == pytest.approx(100 * 3 / 7)


def test_strict_load_fails_on_the_bias_alone():
    assert figures("strict_load") == {"error_names_bias": 1.0, "error_names_shape": 0.0}


def test_eps_inside_and_outside_part_where_the_rms_nears_the_root_of_eps():
    found = figures("eps_inside_and_outside")
    assert found["at_1"] < 1e-5 < found["at_1e_2"] < found["at_1e_3"] < found["at_1e_4"]


def test_families_and_final_norms_are_read_from_the_networks():
    families, finals = figures("family_norms"), figures("final_norm_names")
    assert families["bert"] == "post layer_norm"
    assert families["llama"] == "pre rms_norm"
    assert finals == {"llama": "norm", "gpt2": "ln_f", "t5": "final_layer_norm"}


def test_no_field_of_gpt2s_configuration_chooses_the_norm():
    assert figures("framework_support") == {"pytorch": "built in", "hugging_face_gpt2": "not selectable"}
