"""Two inspections are compared variant by variant, by their machine code alone."""

from normbench.inspection.difference import compare

from .handmade import figures, inspection, variant

OTHER = figures(code_hash="b" * 64, registers=40)


def test_the_same_code_is_no_difference():
    found = compare(inspection(variant()), inspection(variant()))
    assert found.is_empty
    assert found.unchanged == 1


def test_other_code_is_a_change():
    found = compare(inspection(variant()), inspection(variant(figures=OTHER)))
    assert not found.is_empty
    (change,) = found.changed
    assert (change.before.figures.registers, change.after.figures.registers) == (32, 40)


def test_what_is_new_appeared_and_what_is_gone_disappeared():
    found = compare(inspection(variant(kernel="old"), variant()), inspection(variant(), variant(kernel="new")))
    assert [one.kernel for one in found.appeared] == ["new"]
    assert [one.kernel for one in found.disappeared] == ["old"]
    assert not found.is_empty


def test_launches_of_one_kernel_in_one_case_are_compared_in_order():
    before = inspection(variant(launch=0), variant(launch=1, figures=OTHER))
    assert compare(before, before).is_empty
    swapped = inspection(variant(launch=0, figures=OTHER), variant(launch=1))
    assert len(compare(before, swapped).changed) == 2


def test_a_kernel_that_stops_compiling_has_changed():
    found = compare(inspection(variant()), inspection(variant(figures=None, error="PTXASError: no")))
    assert len(found.changed) == 1


def test_other_versions_of_the_compiler_are_named():
    found = compare(inspection(variant()), inspection(variant(), versions={"torch": "2.13.0", "triton": "3.9.0"}))
    assert found.versions == {"triton": ("3.7.1", "3.9.0")}
    assert found.is_empty
