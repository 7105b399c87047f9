"""Of ranks that wait for each other, the one that hangs is told by where each of them is."""

import subprocess
import sys
import textwrap

import pytest

from normbench.distributed.position import Position, hanging, read_positions

IN_BARRIER = "/site-packages/torch/distributed/distributed_c10d.py barrier"
IN_BACKWARD = "/site-packages/torch/autograd/graph.py _engine_run_backward"
IN_PROVIDER = "/home/me/provider.py norm"


def at(rank, step, innermost=None):
    return Position(rank=rank, task=1, step=step, innermost=innermost)


@pytest.mark.parametrize(
    ("positions", "stuck"),
    [
        pytest.param([at(0, 5), at(1, 4), at(2, 5)], [1], id="the one furthest behind"),
        pytest.param([at(0, 5, IN_BACKWARD), at(1, 5, IN_PROVIDER)], [1], id="of two in the same step the one that does not wait"),
        pytest.param([at(0, 5, IN_BARRIER), at(1, 4, IN_BACKWARD)], [1], id="furthest behind, wherever it is"),
        pytest.param([at(0, 5, IN_BACKWARD), at(1, 5, IN_BARRIER)], [0, 1], id="all of them where none can be told"),
        pytest.param([at(0, 5), Position(rank=1)], [1], id="the one that never came"),
    ],
)
def test_the_rank_that_the_others_wait_for_is_told(positions, stuck):
    assert [position.rank for position in hanging(positions)] == stuck


def test_a_process_leaves_where_it_is_before_its_time_is_up(tmp_path):
    script = """
    import sys, time
    from normbench.distributed.position import PositionWriter

    def stuck_here():
        time.sleep(1.0)

    writer = PositionWriter(sys.argv[1], rank=1, task=3, timeout_s=0.5)
    writer.tell("training aten with the others")
    stuck_here()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], check=True)
    missing, found = read_positions(str(tmp_path), 2, task=3)
    assert missing == Position(rank=0)
    assert (found.step, found.doing, found.innermost) == (2, "training aten with the others", "<string> stuck_here")
    assert not found.is_waiting
    assert read_positions(str(tmp_path), 2, task=4)[1] == Position(rank=1), "what was written in an earlier task is no news"
