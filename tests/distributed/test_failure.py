"""Several ranks fail at once and one is the cause: that one is named, with what it did and the end of its log."""

import pytest

from normbench.distributed.failure import PeerLost, RankGone, explain, tail_of
from normbench.distributed.position import Position
from normbench.errors import NormbenchError
from normbench.measure.worker import TaskDied, TaskTimeout

KILLED = TaskDied("the process was killed by signal 9, SIGKILL", 9)
LOST = PeerLost("Connection closed by peer")
SILENT = TaskTimeout("no answer for 5 s")
RAISED = NormbenchError("ValueError: no kernel for this")


def explained(failures, tmp_path, steps=(4, 4)):
    positions = [Position(rank=rank, task=1, step=step, doing=f"training at step {step}") for rank, step in enumerate(steps)]
    logs = {}
    for rank in range(len(steps)):
        logs[rank] = (tmp_path / f"rank{rank}.log", len("an earlier run\n"))
        logs[rank][0].write_text(f"an earlier run\nsaid by rank {rank}\n")
    return explain(failures, positions, logs)


@pytest.mark.parametrize(
    ("failures", "rank", "how"),
    [
        ({0: LOST, 1: KILLED}, 1, "SIGKILL"),
        ({0: RAISED, 1: LOST}, 0, "no kernel"),
        ({0: LOST, 1: RankGone("the process that torchrun started ended")}, 1, "torchrun started"),
        ({0: SILENT, 1: KILLED}, 1, "SIGKILL"),
        ({0: LOST}, 0, "closed by peer"),
    ],
)
def test_cause_is_named_and_not_who_lost_it(tmp_path, failures, rank, how):
    found = explained(failures, tmp_path)
    assert found.reason.startswith(f"rank {rank} of 2 (training at step 4): ")
    assert how in found.reason
    assert found.cause is failures[rank]
    assert f"said by rank {rank}" in str(found)
    assert "an earlier run" not in str(found)


def test_where_all_are_silent_the_one_behind_is_named(tmp_path):
    found = explained({0: SILENT, 1: SILENT}, tmp_path, steps=(4, 3))
    assert found.reason == "rank 1 of 2 (training at step 3): did not go on: no answer for 5 s"
    assert "said by rank 1" in str(found)


def test_log_that_is_long_empty_or_missing(tmp_path):
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {number}" for number in range(100)))
    assert tail_of(log, 0).splitlines()[-1] == "  line 99"
    assert len(tail_of(log, 0).splitlines()) == 15
    assert tail_of(log, log.stat().st_size) == "  (empty)"
    assert "cannot be read" in tail_of(tmp_path / "none", 0)
