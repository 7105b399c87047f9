"""A run from the outside: killed, interrupted and resumed, with nothing measured lost and nothing measured twice."""

import os
import signal
import subprocess
import sys
import time

import msgspec
import psutil
import pytest

from normbench.errors import UsageError
from normbench.job.request import make_request
from normbench.job.run import Runner, create_run
from normbench.records.record import Role, Status
from normbench.storage.stored_run import INFO, read_run
from normbench.text.choices import Choices

# Eight cases of about a second each: long enough to be hit in the middle.
ARGUMENTS = ["--grid", "8x64,16x64,32x64,64x64", "--provider", "eager,aten", "--pass", "forward", "--budget", "0.5", "--threads", "1"]


def start(folder):
    command = [sys.executable, "-m", "normbench.cli", "run", *ARGUMENTS]
    with (folder / "stderr.txt").open("w") as stderr:
        return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=stderr)


def records_file(folder):
    found = list(folder.glob(".normbench/runs/*/records.jsonl"))
    return found[0] if found else None


def wait_for_lines(folder, process, count):
    while process.poll() is None:
        path = records_file(folder)
        if path is not None and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.01)
    raise AssertionError("the run ended before it could be hit")


def children_of(process):
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize(("lines", "delay_s"), [(1, 0.0), (9, 0.31)], ids=["as a case ends", "inside a case"])
def test_kill_9_loses_nothing_finished_and_resume_does_only_the_rest(tmp_path, normbench, lines, delay_s):
    process = start(tmp_path)
    wait_for_lines(tmp_path, process, lines)
    time.sleep(delay_s)
    workers = children_of(process)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive, "measuring processes outlived the one they work for"

    killed = read_run("latest", root=tmp_path / ".normbench/runs")
    assert not killed.is_complete
    assert len(killed.records) >= lines
    finished = records_file(tmp_path).read_bytes()
    finished = finished[: finished.rfind(b"\n") + 1]

    resumed = normbench("run", "--resume", "latest", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert records_file(tmp_path).read_bytes().startswith(finished), "what was finished was measured again or changed"
    run = read_run("latest", root=tmp_path / ".normbench/runs")
    assert run.is_complete
    assert {record.key for record in killed.records} <= {record.key for record in run.records}
    lines_now = records_file(tmp_path).read_bytes().splitlines()
    assert len(lines_now) == len({record.key for record in run.records}), "a record was taken twice"


def test_ctrl_c_keeps_everything_and_marks_what_was_not_reached(tmp_path, normbench):
    process = start(tmp_path)
    wait_for_lines(tmp_path, process, 4)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert "interrupted; what was measured is kept, and `normbench run --resume .normbench/runs/" in (tmp_path / "stderr.txt").read_text()
    run = read_run("latest", root=tmp_path / ".normbench/runs")
    assert not run.is_complete
    asked = [record for record in run.records if record.role is Role.PROVIDER]
    # Four shapes, two norms, two providers: each is exactly one record.
    assert len(asked) == len({record.key for record in asked}) == 16
    assert {record.status for record in asked} == {Status.OK, Status.INTERRUPTED}
    assert all(record.reason for record in asked if record.status is Status.INTERRUPTED)

    assert normbench("run", "--resume", "latest", cwd=tmp_path).returncode == 0
    run = read_run("latest", root=tmp_path / ".normbench/runs")
    assert run.is_complete
    assert {record.status for record in run.records} == {Status.OK}


def test_resume_with_other_choices_is_refused(tmp_path, normbench):
    choices = ["--grid", "8x64", "--provider", "aten", "--pass", "forward", "--norm", "rms_norm", "--budget", "0.2", "--threads", "1"]
    assert normbench("run", *choices, cwd=tmp_path).returncode == 0
    for other, said in [
        (["--seed", "7"], "was made with seed 0, not seed 7:"),
        (["--budget", "9"], "was made with budget_s 0.2, not budget_s 9.0:"),
        (["--provider", "eager"], "was made with providers aten, not providers eager:"),
        (
            ["--dtype", "bfloat16"],
            "with 1 cases (op/rms_norm/forward/8x64/float32), not 1 cases (op/rms_norm/forward/8x64/bfloat16): resume it",
        ),
    ]:
        # What is left out is as it was, whether the rest is said again or not.
        for words in (choices, []):
            process = normbench("run", *words, *other, "--resume", "latest", cwd=tmp_path)
            assert process.returncode == 2
            assert said in process.stderr


class NoMeasurer:
    """Stand in for measuring processes: a run that is refused needs none."""

    device = {"type": "cpu"}

    def __init__(self, *args, **options):
        pass

    def load_networks(self, cases):
        pass

    def close(self):
        pass


def test_a_run_of_another_machine_is_refused_and_left_as_it_was(tmp_path):
    choices = Choices(grid="8x64", provider="aten", norm="rms_norm", pass_="forward", threads=1)
    request = msgspec.structs.replace(make_request(choices, command=[]), root=str(tmp_path))
    with create_run(request, request.groups(), device={}) as writer:
        pass
    info = writer.path / INFO
    info.write_bytes(info.read_bytes().replace(b'"cpu_model"', b'"cpu_model_there"'))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".log"}
    resumed = Runner(msgspec.structs.replace(request, resume=writer.path.name), measurer=NoMeasurer)
    with pytest.raises(UsageError, match="was taken on another machine"), resumed:
        pass
    assert {path: path.read_bytes() for path in before} == before
