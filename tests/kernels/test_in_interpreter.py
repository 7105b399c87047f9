"""The kernels in Triton's interpreter: the inputs that have broken those of others, and the widths at which ours change."""

from interpreter import run_interpreted


def test_cases(tmp_path):
    found = run_interpreted("cases.py", tmp_path)
    # The widths are those of A29; A12, A32, A33, A35 and A38 are tested with the properties and with `apply`.
    wanted = {"widths", "a07", "a08", "a09", "a10", "a11", "a13", "a14", "a15", "a23", "a24", "a25", "a28", "a34", "a37"}
    assert {name.split("_")[1].partition("[")[0] for name in found} >= wanted
