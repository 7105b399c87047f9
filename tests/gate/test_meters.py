"""Who counts instructions: perf where the processor lets it, else callgrind, else nobody and a reason."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from normbench.errors import NormbenchError
from normbench.gate.meters import Callgrind, Perf, find_meter

# As perf 6.1 does: it counts `true` at once, and a process between the orders it is given, each of which it answers.
PERF = f"""#!{sys.executable}
import os, signal, sys

COUNT = "1234567,,instructions:u,812345,100.00,,"
if "--control" not in sys.argv:
    sys.exit(COUNT)
orders, answers = map(int, sys.argv[sys.argv.index("--control") + 1].removeprefix("fd:").split(","))
seen = []
signal.signal(signal.SIGINT, lambda *_: (print(COUNT if seen == ["enable", "disable"] else seen, file=sys.stderr), sys.exit()))
for order in os.fdopen(orders):
    seen.append(order.strip())
    os.write(answers, b"ack\\n")
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Return a function that makes a program, where these are all that there are."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(name, text):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    return make


def test_perf_counts_between_start_and_stop(programs, tmp_path):
    programs("perf", PERF)
    meter, _ = find_meter(tmp_path)
    assert isinstance(meter, Perf)
    assert meter.command == ()
    for _ in range(2):
        meter.start(1)
        assert meter.stop(1) == 1234567


def test_perf_that_ends_before_it_counts_says_why(programs, tmp_path):
    programs("perf", "#!/bin/sh\necho 'Permission denied' >&2\nexit 255\n")
    meter = Perf(str(tmp_path / "perf"))
    with pytest.raises(NormbenchError, match="perf does not count process 1: Permission denied"):
        meter.start(1)


def test_perf_that_ends_while_it_counts_says_so(programs, tmp_path):
    programs("perf", PERF.replace("    seen.append(order.strip())", '    seen.append(order.strip())\n    if seen[1:]: sys.exit("lost")'))
    meter = Perf(str(tmp_path / "perf"))
    meter.start(1)
    with pytest.raises(NormbenchError, match="perf stopped counting process 1: lost"):
        meter.stop(1)


NOT_SUPPORTED = "#!/bin/sh\necho '<not supported>,,instructions:u,0,100.00,,' >&2\n"


def test_where_the_processor_does_not_count_callgrind_does(programs, tmp_path):
    programs("perf", NOT_SUPPORTED)
    for name in ("valgrind", "vgdb"):
        programs(name, "#!/bin/sh\n")
    meter, _ = find_meter(tmp_path)
    assert isinstance(meter, Callgrind)
    assert meter.command[0] == str(tmp_path / "valgrind")


def test_where_nobody_counts_there_is_one_reason_and_a_remedy(programs, tmp_path):
    programs("perf", NOT_SUPPORTED)
    meter, reason = find_meter(tmp_path)
    assert meter is None
    assert reason == (
        "perf counts no instructions here (<not supported>,,instructions:u,0,100.00,,), and valgrind is not installed: "
        "on Debian, apt-get install valgrind"
    )


def test_without_either_tool_both_are_named(programs, tmp_path):
    assert find_meter(tmp_path)[1].startswith("perf is not installed, and valgrind is not installed")


LOOP = """
import os, sys

if os.fork():
    os.wait()
else:
    print(os.getpid(), flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            sum(range(100))
        print("done", flush=True)
"""


@pytest.mark.skipif(not (shutil.which("valgrind") and shutil.which("vgdb")), reason="valgrind is not installed")
def test_callgrind_counts_a_fork_of_what_it_runs_and_twice_the_work_is_twice_the_count(tmp_path):
    meter = Callgrind(valgrind=shutil.which("valgrind"), vgdb=shutil.which("vgdb"), folder=tmp_path)
    command = [*meter.command, sys.executable, "-S", "-c", LOOP]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        counts = []
        for loops in (100, 1100, 2100):
            meter.start(pid)
            process.stdin.write(f"{loops}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            counts.append(meter.stop(pid))
        process.stdin.close()
    # Adding up 100 numbers takes thousands of instructions.
    assert counts[1] - counts[0] > 1e6
    assert (counts[2] - counts[1]) / (counts[1] - counts[0]) == pytest.approx(1, abs=0.02)


def test_a_process_that_is_not_there_is_told(tmp_path):
    meter = Callgrind(valgrind="valgrind", vgdb=shutil.which("false"), folder=tmp_path)
    with pytest.raises(NormbenchError, match="vgdb cannot reach process 1"):
        meter.start(1)


def test_a_count_that_was_not_written_is_told(tmp_path):
    meter = Callgrind(valgrind="valgrind", vgdb=shutil.which("true"), folder=tmp_path)
    with pytest.raises(NormbenchError, match="callgrind wrote no count of process 1"):
        meter.stop(1)
