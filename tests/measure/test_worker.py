"""Tasks run one by one in processes of their own, and whatever happens to one is told in words and harms no other."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from normbench.errors import NormbenchError, UsageError
from normbench.measure.worker import TaskDied, TaskTimeout, Worker

TASKS = "measure.worker_tasks"
LONG_S = 30.0
"""No test waits that long; it only keeps a fault from hanging the whole session."""


def start(log, setup="nothing", argument=None, environment=None) -> Worker:
    return Worker(setup=f"{TASKS}:{setup}", setup_argument=argument, environment=environment or {}, log=log)


def run(worker: Worker, task: str, argument=None, timeout_s: float = LONG_S) -> list:
    return list(worker.run(f"{TASKS}:{task}", argument, timeout_s=timeout_s))


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that ended and was not waited for by its parent does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_dead(pid: int) -> bool:
    deadline = time.monotonic() + LONG_S
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.005)
    return not is_alive(pid)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("worker") / "log"


@pytest.fixture(scope="module")
def worker(log):
    # Buffered as usual, whatever the environment of the tests says.
    with start(log, "remember", "from setup", {"PYTHONUNBUFFERED": ""}) as worker:
        yield worker


def test_emitted_values_arrive_in_order(worker):
    # More than the 208 KiB that a Unix socket buffers, so that the sender has to wait for the reader.
    values = ["a", 2, {"three": (3.0, None)}, b"x" * 1_000_000, *range(100)]
    assert run(worker, "emit_each", values) == values


def test_task_that_emits_nothing_yields_nothing(worker):
    assert run(worker, "emit_each", []) == []


def test_each_task_has_its_own_process_and_sees_only_what_setup_left(worker):
    ((first, first_seen),) = run(worker, "emit_identity", "left by the first")
    ((second, second_seen),) = run(worker, "emit_identity", "left by the second")
    assert len({first, second, os.getpid()}) == 3
    assert first_seen == second_seen == ["from setup"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ValueError", "ValueError: bad value"),
        ("empty", "KeyError: "),
        # A kernel's file may call sys.exit; it must not look like an end without a fault.
        ("SystemExit", "SystemExit: 3"),
        ("unpicklable", "ForeignError: one and two"),
    ],
)
def test_exception_of_a_task_is_told_by_type_and_text(worker, name, text):
    received = []
    with pytest.raises(NormbenchError) as caught:
        received.extend(worker.run(f"{TASKS}:raise_named", name, timeout_s=LONG_S))
    assert type(caught.value) is NormbenchError
    assert str(caught.value) == text
    assert run(worker, "emit_each", [1]) == [1]


def test_what_was_emitted_before_an_exception_arrives(worker):
    values = worker.run(f"{TASKS}:raise_named", "ValueError", timeout_s=LONG_S)
    assert next(values) == "before"
    with pytest.raises(NormbenchError, match="bad value"):
        next(values)


@pytest.mark.parametrize(("name", "kind"), [("NormbenchError", NormbenchError), ("UsageError", UsageError), ("TaskDied", TaskDied)])
def test_own_exceptions_keep_their_type(worker, name, kind):
    with pytest.raises(NormbenchError) as caught:
        run(worker, "raise_named", name)
    assert type(caught.value) is kind


def test_own_exceptions_survive_pickling():
    copy = pickle.loads(pickle.dumps(TaskDied("killed", signal.SIGSEGV)))
    assert (str(copy), copy.signal_number) == ("killed", signal.SIGSEGV)


def test_value_that_cannot_be_sent_is_an_exception_of_the_task(worker):
    with pytest.raises(NormbenchError, match="pickle"):
        run(worker, "emit_unpicklable")
    assert run(worker, "emit_each", [1]) == [1]


def test_unknown_task_is_an_exception_of_the_task(worker):
    with pytest.raises(NormbenchError, match=r"AttributeError.*no_such_task"):
        run(worker, "no_such_task")
    assert run(worker, "emit_each", [1]) == [1]


# SIGKILL is what the kernel's out-of-memory killer sends, SIGSEGV what a kernel with a bad index gets, SIGABRT what glibc raises when
# the heap is corrupt, SIGFPE an integer division by zero in compiled code.
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE], ids=lambda number: number.name)
def test_killed_task_names_its_signal_and_the_next_one_runs(worker, number):
    with pytest.raises(TaskDied, match=number.name) as caught:
        run(worker, "die", number)
    assert caught.value.signal_number == number
    assert ("out of memory" in str(caught.value)) == (number == signal.SIGKILL)
    assert run(worker, "emit_each", [1]) == [1]


# 0 looks like success to a shell, but the task never came to its end.
@pytest.mark.parametrize("code", [0, 1])
def test_task_that_leaves_early_died(worker, code):
    with pytest.raises(TaskDied, match=f"exited with code {code}") as caught:
        run(worker, "exit_with", code)
    assert caught.value.signal_number is None
    assert run(worker, "emit_each", [1]) == [1]


@pytest.mark.parametrize("argument", [["left", "alone"], "ValueError"], ids=["finishes", "raises"])
def test_iterator_left_early_does_not_answer_for_the_next_task(worker, argument):
    task = "raise_named" if argument == "ValueError" else "emit_each"
    assert next(worker.run(f"{TASKS}:{task}", argument, timeout_s=LONG_S)) in ("left", "before")
    assert run(worker, "emit_each", [1, 2]) == [1, 2]


def test_output_of_tasks_is_in_the_log(worker, log):
    run(worker, "say", "hello")
    with pytest.raises(NormbenchError):
        run(worker, "raise_named", "ValueError")
    text = log.read_text()
    assert "hello to stdout" in text
    assert "hello to stderr" in text
    assert "ValueError: bad value" in text
    assert "raise_named" in text, "the traceback is there"


def test_output_of_setup_is_in_the_log_once(worker, log):
    for _ in range(2):
        run(worker, "say", "again")
    assert log.read_text().count("set up once") == 1


def test_environment_is_laid_over_our_own(tmp_path, monkeypatch):
    monkeypatch.setenv("NORMBENCH_TEST_KEPT", "kept")
    monkeypatch.setenv("NORMBENCH_TEST_CHANGED", "old")
    names = ["NORMBENCH_TEST_KEPT", "NORMBENCH_TEST_CHANGED"]
    with start(tmp_path / "log", environment={"NORMBENCH_TEST_CHANGED": "new"}) as worker:
        assert run(worker, "emit_environment", names) == [{"NORMBENCH_TEST_KEPT": "kept", "NORMBENCH_TEST_CHANGED": "new"}]
    assert os.environ["NORMBENCH_TEST_CHANGED"] == "old"


def test_modules_in_the_working_directory_are_not_imported(tmp_path, monkeypatch):
    (tmp_path / "tempfile.py").write_text("raise AssertionError('imported')")
    monkeypatch.chdir(tmp_path)
    # As in `python -c`: there it stands for the working directory.
    monkeypatch.syspath_prepend("")
    with start(tmp_path / "log") as worker:
        (path,) = run(worker, "emit_path")
    assert str(tmp_path) not in path
    own = [entry for entry in sys.path if entry]
    assert [entry for entry in own if entry in path] == own, "what else this process can import, the worker can"


def test_what_is_prepared_in_the_server_is_there_for_all_later_tasks(tmp_path):
    with start(tmp_path / "log") as worker:
        worker.prepare(f"{TASKS}:remember", "prepared", timeout_s=LONG_S)
        first, second = (run(worker, "tell_seen") for _ in range(2))
        assert first == second == [["prepared"]]


def test_what_fails_while_it_is_prepared_is_raised_and_the_server_goes_on(tmp_path):
    with start(tmp_path / "log") as worker:
        with pytest.raises(UsageError, match="no such thing"):
            worker.prepare(f"{TASKS}:refuse", "such thing", timeout_s=LONG_S)
        assert run(worker, "tell_seen") == [[]]


def test_exception_of_setup_is_raised_by_the_constructor(tmp_path):
    with pytest.raises(UsageError, match="no kernel"):
        start(tmp_path / "log", "refuse", "kernel")
    with pytest.raises(NormbenchError, match=r"^ForeignError: kernel and more$"):
        start(tmp_path / "log", "fail_setup", "kernel")


def test_death_in_setup_points_to_the_log(tmp_path):
    with pytest.raises(NormbenchError, match=f"ended unexpectedly.*{tmp_path / 'log'}"):
        start(tmp_path / "log", "die_in_setup")


def test_silent_task_times_out_and_closes_the_worker(tmp_path):
    worker = start(tmp_path / "log")
    values = worker.run(f"{TASKS}:sleep", 60, timeout_s=0.2)
    pid = next(values)
    with pytest.raises(TaskTimeout, match=r"no answer for 0\.2 s"):
        next(values)
    assert worker.is_closed
    assert wait_until_dead(pid)


def test_close_ends_a_running_task_and_may_be_called_again(tmp_path):
    worker = start(tmp_path / "log")
    pid = next(worker.run(f"{TASKS}:sleep", 60, timeout_s=LONG_S))
    assert is_alive(pid)
    worker.close()
    assert wait_until_dead(pid)
    worker.close()
    assert worker.is_closed


def test_task_dies_with_its_server(tmp_path):
    worker = start(tmp_path / "log")
    with pytest.raises(NormbenchError, match="ended unexpectedly"):
        run(worker, "kill_server")
    assert worker.is_closed
    with pytest.raises(NormbenchError, match="ended unexpectedly"):
        run(worker, "emit_each", [1])


_PARENT = """
import sys
from pathlib import Path
from normbench.measure.worker import Worker
worker = Worker(setup="measure.worker_tasks:nothing", setup_argument=None, environment={}, log=Path(sys.argv[1]))
pid = next(worker.run("measure.worker_tasks:sleep", 60, timeout_s=60))
print(worker._process.pid, pid, flush=True)
sys.stdin.read()
"""


# The user closes the terminal, a CI job is cancelled, or the out-of-memory killer picks the process that keeps the records.
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_killed_parent_leaves_no_orphan(tmp_path, number):
    command = [sys.executable, "-c", _PARENT, str(tmp_path / "log")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        server, task = map(int, parent.stdout.readline().split())
        assert is_alive(server)
        assert is_alive(task)
        parent.send_signal(number)
        parent.wait()
    assert wait_until_dead(server)
    assert wait_until_dead(task)
