"""Whatever the launch, the kernels compute the same: those that the tuner tries, and the one it starts from."""

import pytest
import torch

from normbench.cases.case import Case, Pass
from normbench.tuning.candidates import candidates_for
from normbench.tuning.operands import Operands, make_call
from normbench.tuning.timing import require_same


# The widths at which candidates have several rows a program, one, steps of a loop and blocks of columns.
@pytest.mark.parametrize(("norm", "cols", "rows"), [("layer_norm", 96, 9), ("rms_norm", 4100, 2)])
@pytest.mark.parametrize("direction", [Pass.FORWARD, Pass.BACKWARD])
def test_every_candidate_computes_what_todays_launch_does(norm, direction, cols, rows):
    case = Case.make(norm, direction, (rows, cols), "float32", residual=cols < 4096)
    operands = Operands.drawn(case, torch.device("cpu"), 0)
    # A cap on registers means nothing here: one of each tile is enough.
    tiles = {(one.block_rows, one.block_cols, one.num_warps, one.resident_programs): one for one in candidates_for(direction, cols, 4)}
    assert len({(one.block_rows, one.block_cols) for one in tiles.values()}) >= 3
    require_same({str(key): make_call(operands, one) for key, one in tiles.items()})
