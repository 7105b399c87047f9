"""Cases small enough for Triton's interpreter: as many rows as are affordable, and all else as it was."""

import pytest

from normbench.cases.case import Case
from normbench.kernels.interpret import fewer_rows, shrink


# 61 rows, or what 2^19 elements hold, but at least 3; sizes are cut from the first one on.
@pytest.mark.parametrize(
    ("shape", "fewer"),
    [
        ((4, 64), (4, 64)),
        ((2048, 512), (61, 512)),
        ((2048, 16384), (32, 16384)),
        ((2048, 262144), (3, 262144)),
        ((4, 16, 64), (3, 16, 64)),
        ((1, 2048, 32, 128), (1, 1, 32, 128)),
        ((1, 2048, 64, 64), (1, 1, 61, 64)),
        ((64,), (64,)),
        ((0, 1024), (0, 1024)),
        ((1, 0, 10), (1, 0, 10)),
        ((1, 0), (1, 0)),
    ],
    ids=str,
)
def test_rows_are_cut_and_dimensions_stay(shape, fewer):
    case = Case.make("layer_norm", "backward", shape, "bfloat16", residual=True, eps=0.5)
    found = fewer_rows(case)
    assert found == Case.make("layer_norm", "backward", fewer, "bfloat16", residual=True, eps=0.5)


def test_at_least_one_row_is_left():
    assert shrink(Case.make("rms_norm", "forward", (2, 3, 8), "float32"), 1).shape == (1, 1, 8)
