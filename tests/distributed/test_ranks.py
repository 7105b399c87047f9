"""Two real processes by torchrun: one run, a record per arm with both ranks' samples; and what is left when one dies or hangs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from normbench.records.record import Role, Status
from normbench.results.scaling import scaling_of
from normbench.storage.stored_run import RunStatus, read_run

from .fragile_provider import DYING, HANGING

PROVIDER = f"{Path(__file__).with_name('fragile_provider.py')}:fragile"
WORDS = ["--network", "gpt2", "--norm", "rms_norm", "--tokens", "8", "--threads", "1", "--budget", "0.2"]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "normbench.throughput"]
RUN = ["-m", "normbench.cli", "run", "--tier", "throughput", "--nproc", "2"]


def run(how, *words, cwd):
    """Return the completed command, after which none of its processes may be left."""
    environment = {**os.environ, **ONE_THREAD, "MARK": str(cwd)}
    done = subprocess.run([sys.executable, *how, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=200)
    assert left_over(str(cwd)) == []
    return done


def left_over(mark):
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("MARK") == mark and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess):
            pass
    # Who dies with its parent is told when that one is gone.
    _, alive = psutil.wait_procs(found, timeout=5)
    return alive


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def died(folder):
    """Two groups, of which rank 1 dies in the second: the command, and the run it leaves."""
    done = run(RUN, *WORDS, "--provider", PROVIDER, "--batch", f"2,{DYING},4", "--accumulation", "2", cwd=folder)
    return done, read_run(root=folder / ".normbench/runs")


def records_of(found, batch):
    return [record for record in found.records if record.case.size[0] == batch and record.role is Role.PROVIDER]


def test_group_that_was_finished_has_the_samples_of_all_ranks(died):
    (record,) = records_of(died[1], 2)
    assert record.status is Status.OK, record.reason
    assert record.conditions.id == "cpu/1t/warm/reused/2p-ddp"
    assert record.metric.per_call == 2 * record.case.tokens == 2 * 2 * 2 * 8, "of two ranks, two microbatches, two sequences"
    assert len(record.ranks.each) == 2
    for number, block in enumerate(record.measurement.blocks):
        each = [rank.blocks[number].samples_s[0] for rank in record.ranks.each]
        assert block.samples_s[0] == tuple(map(max, zip(*each, strict=True))), "a step takes as long as its slowest rank"
        assert len(record.ranks.alone.blocks[number].samples_s[0]) == len(block.samples_s[0])
    assert scaling_of(record).efficiency.estimate > 0


def test_step_of_two_ranks_was_checked_before_it_was_timed(died):
    (record,) = records_of(died[1], 2)
    gradients, parameters = record.accuracy[-2:]
    assert "averaged over 2 ranks" in gradients.tensor
    assert "after one step" in parameters.tensor
    assert gradients.passed
    assert parameters.passed


def test_network_without_norms_runs_along(died):
    (control,) = [record for record in died[1].records if record.role is Role.CONTROL]
    assert control.ranks is not None


def test_rank_that_dies_ends_the_run_and_what_was_finished_is_kept(died):
    done, found = died
    assert done.returncode == 1
    assert found.info.status is RunStatus.INCOMPLETE
    (failed,) = records_of(found, DYING)
    assert failed.status is Status.INTERRUPTED, "so that --resume tries it again"
    assert re.match(r"rank 1 of 2 \(.*rms_norm.*\): the process was killed by signal 9, SIGKILL", failed.reason)
    (later,) = records_of(found, 4)
    assert later.status is Status.INTERRUPTED
    assert "rank 1 is about to die" in done.stderr, "the end of its log is shown"
    assert done.stderr.count("SIGKILL") == 1
    assert "Traceback" not in done.stderr
    assert f"what was measured is kept, and `normbench run --resume {found.path.relative_to(found.path.parents[2])}` goes on" in done.stderr


def test_rank_that_hangs_is_named_when_its_time_is_up(folder):
    done = run(TORCHRUN, *WORDS, "--provider", PROVIDER, "--batch", str(HANGING), "--timeout", "12", "--out", "hung", cwd=folder)
    assert done.returncode == 1
    (failed,) = records_of(read_run(root=folder / "hung"), HANGING)
    assert failed.status is Status.INTERRUPTED
    assert re.match(r"rank 1 of 2 \(.*\): did not go on: no answer for 12 s", failed.reason), failed.reason
    assert "rank 1 is about to hang" in done.stderr


def test_input_that_cannot_work_is_told_once(tmp_path):
    done = run(TORCHRUN, *WORDS, "--global-batch", "3", cwd=tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("normbench: global-batch 3 cannot be split over 2 processes: 3 is not a multiple of 2") == 1
    assert done.stderr.count("normbench: ") == 1
