"""The machine record: what is known, why the rest is not, and an identity that lasts."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

import normbench
from normbench.host.cgroup import memory_headroom_bytes, memory_limit_bytes
from normbench.host.machine import available_memory_bytes, git_commit, machine_identity, machine_record, package_versions

from .fake_nvml import NOT_SUPPORTED, FakeNvml, NVMLError, card
from .fake_root import cgroup_v1, cgroup_v2, write

GIB = 2**30
SERVER = {
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) 8488C\ncpu MHz\t\t: 2400.001\n"
    "flags\t\t: fpu avx2 avx512f amx_bf16 fma\n\nprocessor\t: 1\nmodel name\t: another",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/cpu0/cache/index0/level": "1",
    "sys/devices/system/cpu/cpu0/cache/index0/type": "Data",
    "sys/devices/system/cpu/cpu0/cache/index0/size": "48K",
    "sys/devices/system/cpu/cpu0/cache/index2/level": "2",
    "sys/devices/system/cpu/cpu0/cache/index2/type": "Unified",
    "sys/devices/system/cpu/cpu0/cache/index2/size": "2048K",
    "sys/devices/system/cpu/cpu0/cache/index3/level": "3",
    "sys/devices/system/cpu/cpu0/cache/index3/type": "Unified",
    "sys/devices/system/cpu/cpu0/cache/index3/size": "105M",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "sys/class/dmi/id/sys_vendor": "Amazon EC2",
    "sys/class/dmi/id/product_name": "m7i.large",
    "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"',
    ".dockerenv": "",
}


@pytest.fixture
def server(tmp_path):
    return write(tmp_path, SERVER)


def test_what_a_server_shows(server):
    record = machine_record(root=server, library=FakeNvml())
    expected = {
        "cpu_model": "Intel(R) Xeon(R) 8488C",
        "cpu_isa": ["fma", "avx2", "avx512f", "amx_bf16"],
        "governor": "performance",
        "l2_bytes": 2 * 2**20,
        "l3_bytes": 105 * 2**20,
        "transparent_hugepages": "madvise",
        "system": "Amazon EC2 m7i.large",
        "os": "Ubuntu 24.04.1 LTS",
        "nvidia_driver": "570.124.06",
        "cuda_driver": "12.8",
        "gpus": [],
        "cuda_devices": [],
    }
    assert {name: record[name] for name in expected} == expected


def test_a_machine_that_shows_nothing_has_a_reason_for_each_null(tmp_path):
    record = machine_record(root=tmp_path, library=FakeNvml(init=NVMLError("Driver Not Loaded")))
    nulls = {name for name, value in record.items() if value is None}
    assert {"cpu_isa", "governor", "l2_bytes", "l3_bytes", "system", "gpus", "cuda_driver"} <= nulls
    assert nulls == set(record["reasons"])
    assert record["reasons"]["gpus"] == "NVML: Driver Not Loaded"
    assert record["reasons"]["governor"].endswith("No such file or directory")


def test_an_arm_cpu_is_named_by_its_part(tmp_path):
    write(tmp_path, {"proc/cpuinfo": "processor : 0\nFeatures : fp asimd sve i8mm\nCPU implementer : 0x41\nCPU part : 0xd40"})
    record = machine_record(root=tmp_path)
    assert record["cpu_model"] == "CPU implementer 0x41 CPU part 0xd40"
    assert record["cpu_isa"] == ["asimd", "sve", "i8mm"]


def test_this_machine_is_plain_json():
    record = machine_record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["cores"] >= 1
    assert record["memory_gib"] >= 1


def test_cards_are_listed_with_reasons_of_their_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    record = machine_record(library=FakeNvml(card("GPU-a"), card("GPU-b", power_limit_mw=NOT_SUPPORTED)))
    first, second = record["gpus"]
    assert first == {
        "nvml_index": 0,
        "uuid": "GPU-a",
        "name": "NVIDIA H200",
        "memory_bytes": 2**37,
        "power_limit_w": 700.0,
        "max_sm_clock_mhz": 1980,
        "max_memory_clock_mhz": 3201,
        "mig": False,
        "l2_bytes": None,
        "reasons": {"l2_bytes": "CUDA is not started"},
    }
    assert second["power_limit_w"] is None
    assert second["reasons"]["power_limit_w"] == "NVML: Not Supported"
    assert record["cuda_devices"] == ["GPU-b"]


def test_nothing_here_imports_torch():
    code = "import sys; from normbench.host.machine import *; machine_record(); package_versions(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# B51: what changes by the minute is no other machine; another model, count or cap is.
def test_identity_survives_clocks_and_what_is_added(server):
    before = machine_record(root=server, library=FakeNvml(card("GPU-a")))
    write(server, {"proc/cpuinfo": SERVER["proc/cpuinfo"].replace("2400.001", "2402.400")})
    after = machine_record(root=server, library=FakeNvml(card("GPU-a")))
    after |= {"device": {"free_bytes": 17}, "torch_cpu_capability": "AVX512"}
    assert machine_identity(json.loads(json.dumps(after))) == machine_identity(before)
    assert len(machine_identity(before)) == 12


@pytest.mark.parametrize(
    "change",
    [
        {"cpu_model": "other"},
        {"cores": 64},
        {"cpu_quota": 1.5},
        {"governor": "powersave"},
        {"kernel": "Linux 7"},
        {"gpus": None},
        {"cpu_isa": ["avx2"]},
    ],
)
def test_identity_changes_with_what_stays(server, change):
    record = machine_record(root=server, library=FakeNvml(card("GPU-a")))
    assert machine_identity(record | change) != machine_identity(record)


def test_identity_changes_with_the_power_cap(server):
    records = [machine_record(root=server, library=FakeNvml(card("GPU-a", power_limit_mw=cap))) for cap in (700_000, 500_000)]
    assert machine_identity(records[0]) != machine_identity(records[1])


def test_versions():
    versions = package_versions()
    assert versions["python"] == sys.version.split()[0]
    assert versions["normbench"] == normbench.__version__
    assert versions["torch"]
    assert versions["pytest-benchmark"]


def test_a_package_that_is_not_installed_has_no_version(monkeypatch):
    monkeypatch.setattr("normbench.host.machine._PACKAGES", ("no-such-package",))
    assert package_versions()["no-such-package"] is None


def test_memory_of_version_2_leaves_out_the_file_cache(tmp_path):
    files = {
        "a/memory.max": str(4 * GIB),
        "a/memory.current": str(3 * GIB),
        "a/memory.stat": f"anon 7\ninactive_file {2 * GIB}",
        "memory.max": "max",
    }
    root = cgroup_v2(tmp_path, "/a", files)
    assert memory_limit_bytes(root) == 4 * GIB
    assert memory_headroom_bytes(root) == 3 * GIB


def test_memory_of_version_1(tmp_path):
    files = {
        "memory/x/memory.limit_in_bytes": "9223372036854771712",
        "memory/memory.limit_in_bytes": str(GIB),
        "memory/memory.usage_in_bytes": str(GIB // 4),
    }
    assert memory_headroom_bytes(cgroup_v1(tmp_path, "/x", files)) == GIB * 3 // 4


def test_available_memory_is_capped_by_the_group(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * GIB))
    assert available_memory_bytes(tmp_path) == 8 * GIB
    root = cgroup_v2(tmp_path, "/", {"memory.max": str(2 * GIB), "memory.current": str(GIB)})
    assert available_memory_bytes(root) == GIB
    write(root, {"sys/fs/cgroup/memory.current": str(3 * GIB)})
    assert available_memory_bytes(root) == 0


def git(folder, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def test_commit_of_a_clean_and_a_changed_tree(tmp_path):
    git(tmp_path, "init")
    write(tmp_path, {"package/module.py": "1"})
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert git_commit(tmp_path / "package") == git_commit(tmp_path / "package/module.py") == commit
    write(tmp_path, {"notes.txt": "not tracked", "venv/site/module.py": "installed here, not part of the repository"})
    assert git_commit(tmp_path / "package") == commit
    assert git_commit(tmp_path / "venv/site") == "unknown"
    write(tmp_path, {"package/module.py": "2"})
    assert git_commit(tmp_path / "package") == f"{commit}-dirty"


def test_commit_outside_a_repository_or_without_git(tmp_path, monkeypatch):
    assert git_commit(tmp_path) == "unknown"
    monkeypatch.setenv("PATH", "")
    assert git_commit(Path(__file__)) == "unknown"
