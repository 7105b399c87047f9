"""B46: threads are counted from the affinity mask and the cgroup quota, not from the host's CPUs."""

import os
import subprocess
import sys

import pytest
import torch

from normbench.errors import UsageError
from normbench.host.cgroup import cpu_quota
from normbench.host.threads import affinity, available_cores, set_threads, validate_threads

from .fake_root import cgroup_v1, cgroup_v2, write


@pytest.fixture
def sixteen_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)), raising=False)


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        pytest.param("/", {}, None, id="no quota file at the root"),
        pytest.param("/", {"cpu.max": "200000 100000"}, 2.0, id="inside a container with its own view"),
        pytest.param("/", {"cpu.max": "max 100000"}, None, id="no quota"),
        pytest.param("/a/b", {"a/b/cpu.max": "150000 100000"}, 1.5, id="own group"),
        pytest.param("/a/b", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3.0, id="group above"),
        pytest.param("/a/b", {"a/cpu.max": "50000 100000", "a/b/cpu.max": "400000 100000"}, 0.5, id="the tightest counts"),
    ],
)
def test_quota_of_version_2(tmp_path, group, files, expected):
    assert cpu_quota(cgroup_v2(tmp_path, group, files)) == expected


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("200000", 2.0), ("-1", None)],
)
def test_quota_of_version_1(tmp_path, quota, expected):
    folder = "cpu,cpuacct/docker/1f"
    files = {f"{folder}/cpu.cfs_quota_us": quota, f"{folder}/cpu.cfs_period_us": "100000"}
    assert cpu_quota(cgroup_v1(tmp_path, "/docker/1f", files)) == expected


def test_quota_of_a_container_that_sees_only_its_part_of_the_tree(tmp_path):
    # Docker without a cgroup namespace: the path is the host's, the mount begins at the container's group.
    files = {"cpu,cpuacct/cpu.cfs_quota_us": "250000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}
    assert cpu_quota(cgroup_v1(tmp_path, "/docker/1f", files, mounted="/docker/1f")) == 2.5


def test_no_proc_no_quota(tmp_path):
    assert cpu_quota(tmp_path) is None
    assert cpu_quota(write(tmp_path, {"proc/self/mountinfo": "nonsense"})) is None


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("200000", 2), ("250000", 2), ("50000", 1), ("3200000", 16), ("max", 16)],
)
def test_cores_are_the_smaller_of_mask_and_quota(tmp_path, sixteen_cpus, quota, cores):
    assert available_cores(cgroup_v2(tmp_path, "/", {"cpu.max": f"{quota} 100000"})) == cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity masks")
def test_cores_follow_taskset():
    narrow = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    code = f"{narrow}; from normbench.host.threads import available_cores; print(available_cores())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


def test_a_system_without_masks_counts_its_cpus(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert affinity() is None
    assert available_cores(tmp_path) == 8
    with pytest.raises(UsageError, match="the machine has 8 CPUs"):
        validate_threads(9, tmp_path)


def test_more_threads_than_cores_are_refused(tmp_path, sixteen_cpus):
    root = cgroup_v2(tmp_path, "/", {"cpu.max": "200000 100000"})
    validate_threads(2, root)
    with pytest.raises(UsageError, match=r"threads 16 is more .* mask has 16 CPUs, its CPU quota is 2\): ask for at most 2"):
        validate_threads(16, root)


def test_without_a_quota_the_message_says_so(tmp_path, sixteen_cpus):
    with pytest.raises(UsageError, match="there is no CPU quota"):
        validate_threads(17, tmp_path)


@pytest.mark.parametrize("threads", [0, -1])
def test_less_than_one_thread_is_refused(threads):
    with pytest.raises(UsageError, match="less than 1"):
        validate_threads(threads)


def test_threads_are_set_and_restored():
    before = torch.get_num_threads()
    with set_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError), set_threads(1):
        raise ZeroDivisionError
    assert torch.get_num_threads() == before


def test_too_many_threads_are_never_set():
    before = torch.get_num_threads()
    with pytest.raises(UsageError), set_threads(available_cores() + 1):
        pass
    assert torch.get_num_threads() == before
