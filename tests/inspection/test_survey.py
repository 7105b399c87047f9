"""A survey asks each provider for each case, compiles what is distinct once, and says what it left out."""

from pathlib import Path

import pytest

from normbench.cases.case import Case, Convention
from normbench.errors import UsageError
from normbench.inspection.scope import CONVENTIONS
from normbench.inspection.survey import Survey, cases_in_scope, survey

from . import sample_kernels

SAMPLES = Path(sample_kernels.__file__)


def asked(name, *, cols=(64,), pass_="forward", architectures=("sm_90",), kernels="*"):
    cases = tuple(Case.make("rms_norm", pass_, (16, width), "bfloat16") for width in cols)
    return Survey(providers=(f"{SAMPLES}:{name}",), cases=cases, architectures=architectures, kernels=kernels)


def heard(question):
    """Return what a survey finds, and what it says meanwhile."""
    words = []
    found = survey(question, lambda *progress: words.append(progress))
    return found, words


def test_every_kernel_of_every_case_is_a_variant_on_every_architecture():
    found, _ = heard(asked("sound", cols=(64, 96), pass_="forward_backward", architectures=("sm_80", "sm_90")))
    assert [(one.kernel, one.cols, one.arch) for one in found.variants] == [
        (kernel, cols, arch) for cols in (64, 96) for kernel in ("scale_rows", "scale_gradient") for arch in ("sm_80", "sm_90")
    ]
    assert len({one.key for one in found.variants}) == len(found.variants)


def test_what_is_the_same_is_compiled_once():
    # Both widths divide by 16 and fit a block of 128 columns: one machine code.
    found, words = heard(asked("sound", cols=(96, 112)))
    assert words[-1] == (1, 1, "compiling kernels")
    first, second = found.variants
    assert first.figures.code_hash == second.figures.code_hash
    assert [one.figures.arguments[0].numel for one in found.variants] == [16 * 96, 16 * 112]


def test_configurations_of_one_kernel_are_told_apart():
    found, _ = heard(asked("tuned"))
    assert [(one.launch, one.constants["num_warps"], one.figures.threads) for one in found.variants] == [(0, "2", 64), (1, "4", 128)]


def test_a_case_that_a_provider_does_not_take_is_left_out_with_its_reason():
    found, _ = heard(asked("choosy", cols=(64, 128)))
    assert [one.cols for one in found.variants] == [64]
    assert [one.reason for one in found.skipped] == ["wants 64 columns"]


def test_a_pattern_chooses_kernels():
    found, _ = heard(asked("sound", pass_="forward_backward", kernels="*gradient"))
    assert [one.kernel for one in found.variants] == ["scale_gradient"]


def test_a_pattern_that_fits_none_is_told_what_there_is():
    with pytest.raises(UsageError, match="no kernel is named 'bwd'; launched are scale_gradient, scale_rows"):
        heard(asked("sound", pass_="forward_backward", kernels="bwd"))


def test_nothing_left_is_an_error_that_says_why():
    with pytest.raises(UsageError, match="nothing to inspect: wants 64 columns"):
        heard(asked("choosy", cols=(128,)))


def test_versions_of_the_compiler_are_kept():
    found, _ = heard(asked("sound"))
    assert found.versions.keys() == {"torch", "triton"}


def test_every_convention_has_a_budget_and_only_rms_norm_has_those_beside_torch():
    assert set(CONVENTIONS) == set(Convention)
    cases = cases_in_scope(conventions=CONVENTIONS, passes=("forward",), dtypes=("float16",), cols=(64,))
    assert [(case.norm_label, case.convention.value) for case in cases] == [
        ("layer_norm", "torch"),
        ("rms_norm", "torch"),
        ("add_layer_norm", "torch"),
        ("add_rms_norm", "torch"),
        ("rms_norm", "llama"),
        ("add_rms_norm", "llama"),
        ("rms_norm", "gemma"),
        ("add_rms_norm", "gemma"),
    ]


def test_cases_are_in_the_torch_convention_unless_told():
    assert {case.convention for case in cases_in_scope(cols=(64,))} == {Convention.TORCH}
