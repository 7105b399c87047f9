"""A budget says which kernel breaks it and by how much; what keeps all of them is silent."""

import pytest

from normbench.inspection.budget import broken_budgets

from .handmade import argument, figures, variant


def broken(**changes):
    """Return the budgets and messages that figures with these changes break."""
    return [(breach.budget, breach.message) for breach in broken_budgets(variant(figures=figures(**changes)))]


def test_a_kernel_in_order_breaks_none():
    assert broken() == []


def test_any_stack_is_a_spill():
    assert broken(stack_bytes=8, local_accesses=4, registers=255) == [
        ("spills", "8 bytes of stack a thread, 0 allowed (4 accesses of it, 255 registers)")
    ]


def test_narrow_accesses_of_tile_data_are_counted_for_each_argument():
    arguments = (argument("x_ptr", loads={16: 6, 64: 1, 128: 1}), argument("y_ptr", stores={64: 2}))
    assert broken(arguments=arguments) == [
        ("width", "x_ptr: 7 of 8 loads narrower than 128 bits (6 of 16 bits, 1 of 64 bits)"),
        ("width", "y_ptr: 2 of 2 stores narrower than 128 bits (2 of 64 bits)"),
    ]


def test_wider_accesses_are_welcome():
    assert broken(arguments=(argument("x_ptr", loads={256: 4}),)) == []


# A statistic of each row, a weight for each column, partial sums of 4 programs: none is as large as x.
@pytest.mark.parametrize("numel", [16, 1024, 4 * 1024])
def test_what_is_smaller_than_x_may_be_read_in_small_pieces(numel):
    assert broken(arguments=(argument("other_ptr", numel=numel, loads={32: 4}),)) == []


# Rows of 1004 16-bit values are 2008 bytes, 8 more than whole vectors; of 32-bit values they are 251 vectors.
@pytest.mark.parametrize(("itemsize", "count"), [(2, 0), (4, 1)])
def test_rows_that_are_no_whole_vectors_have_no_budget(itemsize, count):
    narrow = figures(arguments=(argument("x_ptr", numel=16 * 1004, itemsize=itemsize, loads={32: 4}),))
    assert len(broken_budgets(variant(cols=1004, figures=narrow))) == count


# A pointer from memory or a choice of two: it may be tile data, so it is held to the width of the case's own rows.
@pytest.mark.parametrize(("cols", "count"), [(1024, 1), (1001, 0)])
def test_an_access_of_unknown_origin_is_held_to_the_budget_too(cols, count):
    untraced = figures(arguments=(argument("unknown", numel=None, itemsize=None, loads={32: 4}),))
    assert len(broken_budgets(variant(cols=cols, figures=untraced))) == count


# 65536 registers: 512 threads of 128 fit exactly; 129 are rounded up to 136, as the device hands them out.
@pytest.mark.parametrize(
    ("registers", "found"), [(128, []), (129, [("registers", "512 threads of 136 registers are 69632, a device has 65536")])]
)
def test_registers_of_all_threads_must_fit(registers, found):
    assert broken(threads=512, registers=registers) == found


# 163 KiB on an A100, 227 KiB on an H100 and a B200.
@pytest.mark.parametrize(("arch", "kib"), [("sm_80", 163), ("sm_90", 227), ("sm_100", 227)])
def test_shared_memory_must_fit_the_device(arch, kib):
    full, over = (variant(arch=arch, figures=figures(shared_bytes=kib * 1024 + more)) for more in (0, 1))
    assert broken_budgets(full) == []
    assert [breach.message for breach in broken_budgets(over)] == [
        f"{kib * 1024 + 1} bytes of shared memory in a program, at most {kib * 1024} can be had"
    ]


def test_a_program_has_at_most_1024_threads():
    assert broken(threads=2048) == [("threads", "2048 threads in a program, at most 1024 can be")]


def test_a_kernel_that_does_not_compile_breaks_a_budget():
    (breach,) = broken_budgets(variant(figures=None, error="CompilationError: no block is that small"))
    assert (breach.budget, breach.message) == ("compiles", "CompilationError: no block is that small")


def test_a_breach_names_its_variant():
    (breach,) = broken_budgets(variant(launch=2, figures=figures(stack_bytes=8)))
    assert (breach.provider, breach.kernel, breach.arch, breach.launch) == ("triton", "forward", "sm_90", 2)
    assert breach.case == "op/rms_norm/forward/16x1024/bfloat16"
