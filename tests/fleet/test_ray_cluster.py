"""The real thing: a Ray cluster of two nodes, two raylets on this machine, one of which is killed half-way.

Ray is not among the packages that tests bring, for its size (79 MB); the rest of the fleet is tested without it.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time

import psutil
import pytest

from normbench.errors import NormbenchError
from normbench.fleet.conduct import execute_on
from normbench.fleet.ray_cluster import RayCluster
from normbench.fleet.scaling import IdleStation, request_of
from normbench.records.record import Role, Status
from normbench.storage.stored_run import read_run

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'normbench[ray]'")

# Ray itself warns, and leaves pipes of processes it has ended to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore")

ASKED = 32
"""Eight shapes, two norms, two providers; twice that for a node to be still at work when it is killed."""
MORE = ",".join(f"{rows}x{cols}" for rows in (8, 16, 32, 64) for cols in (64, 128, 192, 256))
SHAPES = "8x64,16x64,32x64,64x64,8x128,16x128,32x128,64x128"
ARGUMENTS = ["--grid", SHAPES, "--provider", "eager,aten", "--pass", "forward", "--budget", "0.3", "--threads", "1"]
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    yield found
    found.shutdown()


def start(folder, cluster, *options):
    command = [sys.executable, "-m", "normbench.cli", "run", "--ray", cluster.address, *ARGUMENTS, *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def records_file(folder):
    found = list(folder.glob(".normbench/runs/*/records.jsonl"))
    return found[0].read_bytes().splitlines() if found else []


def wait_until(condition, process):
    while process.poll() is None:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"the run ended before it could be hit: {process.stderr.read()}")


def nodes_of(lines):
    return {json.loads(line)["node"] for line in lines}


def stations():
    """Return the processes that measure on the nodes of this test's cluster, by pid."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[0].startswith("ray::") and "Station" in process.cmdline()[0]:
                found[process.pid] = process
    return found


def asked_of(run):
    return [record for record in run.records if record.role is Role.PROVIDER]


def assert_nothing_twice(run, folder, asked=ASKED):
    assert len(asked_of(run)) == asked
    assert len({record.asked for record in run.records}) == len(run.records)
    done = [line for line in records_file(folder) if json.loads(line)["status"] != "interrupted"]
    assert len(done) == len(run.records), "a record was taken twice"


def test_killed_node_costs_no_record_and_none_is_there_twice(tmp_path, cluster):
    second = cluster.add_node(**NODE)
    process = start(tmp_path, cluster, "--grid", MORE)
    wait_until(lambda: len(nodes_of(records_file(tmp_path))) == 2, process)
    cluster.remove_node(second, allow_graceful=False)
    _, told = process.communicate(timeout=80)
    assert process.returncode == 0, told
    run = read_run("latest", root=tmp_path / ".normbench/runs")
    assert run.is_complete
    assert {record.status for record in asked_of(run)} == {Status.OK}
    assert_nothing_twice(run, tmp_path, 2 * ASKED)
    assert any("was lost" in note for note in run.info.notes)
    assert {record.machine for record in run.records} == set(run.info.machines)
    assert len({record.node for record in run.records}) == 2, "both nodes measured"


def test_process_that_crashes_becomes_error_records_and_the_rest_is_measured(tmp_path, cluster):
    process = start(tmp_path, cluster)
    wait_until(lambda: records_file(tmp_path) and stations(), process)
    for station in stations().values():
        station.kill()
    _, told = process.communicate(timeout=80)
    assert process.returncode == 1, told
    run = read_run("latest", root=tmp_path / ".normbench/runs")
    assert_nothing_twice(run, tmp_path)
    assert {record.status for record in asked_of(run)} == {Status.OK, Status.ERROR}
    assert all("ended" in record.reason for record in asked_of(run) if record.status is Status.ERROR)


def test_ctrl_c_ends_what_runs_on_the_nodes_and_the_run_is_resumed(tmp_path, cluster):
    process = start(tmp_path, cluster)
    wait_until(lambda: records_file(tmp_path) and stations(), process)
    working = stations()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    _, alive = psutil.wait_procs(working.values(), timeout=10)
    assert not alive, "what measured outlived the run"
    stopped = read_run("latest", root=tmp_path / ".normbench/runs")
    assert {record.status for record in asked_of(stopped)} == {Status.OK, Status.INTERRUPTED}

    _, told = start(tmp_path, cluster, "--resume", "latest").communicate(timeout=80)
    run = read_run("latest", root=tmp_path / ".normbench/runs")
    assert run.is_complete, told
    assert_nothing_twice(run, tmp_path)


class Refusing(IdleStation):
    """Stand on a node on which nothing can be measured."""

    def measure(self, groups):
        raise NormbenchError("the scales are gone")


def test_what_is_raised_on_a_node_is_the_reason_not_rays_traceback_of_it(tmp_path, cluster):
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    request = request_of(1, str(tmp_path))
    path, is_sound = execute_on(lambda: RayCluster(request, cluster.address, folder=str(tmp_path), station=Refusing), request)
    (record,) = read_run(path).records
    assert not is_sound
    assert record.status is Status.ERROR
    assert record.reason.endswith(" ended: the scales are gone")


def test_address_where_nobody_speaks_ray_is_one_clear_error(tmp_path, normbench):
    begin = time.monotonic()
    done = normbench("run", "--ray", "127.0.0.1:1", *ARGUMENTS, cwd=tmp_path)
    assert done.returncode == 2
    assert "no Ray cluster is reached at '127.0.0.1:1'" in done.stderr
    assert time.monotonic() - begin < 30, "a promise about waiting, not about speed"
    assert not list(tmp_path.glob(".normbench/runs/*/records.jsonl"))
