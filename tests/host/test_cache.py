"""A flush is larger than the last-level cache, whatever the system says of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from normbench.host import cache
from normbench.host.cache import cache_bytes, last_level_bytes, make_flush

from .fake_root import write

CACHES = "sys/devices/system/cpu/cpu0/cache"


def write_caches(root, *caches: str) -> None:
    """Lay out caches, each as `level type size`."""
    for number, words in enumerate(caches):
        for name, text in zip(("level", "type", "size"), words.split(" "), strict=True):
            write(root, {f"{CACHES}/index{number}/{name}": text})


@pytest.mark.parametrize(
    ("caches", "expected"),
    [
        # As Linux writes it: two first-level caches, a second and a third level.
        (["1 Data 48K", "1 Instruction 64K", "2 Unified 2048K", "3 Unified 36864K"], {1: 48 * 1024, 2: 2**21, 3: 36864 * 1024}),
        # No third level on many Arm cores.
        (["1 Instruction 64K", "1 Data 64K", "2 Unified 1024K"], {1: 2**16, 2: 2**20}),
        (["4 Unified 512M"], {4: 512 * 2**20}),
        # A virtual machine or a container that hides its caches.
        ([], {}),
        (["1 Data ", "2 Unified unknown", "3 Unified K", " Unified 32K"], {}),
    ],
)
def test_caches_of_data_are_told_by_level_and_the_largest_counts(tmp_path, caches, expected):
    write_caches(tmp_path, *caches)
    assert cache_bytes(tmp_path) == expected
    assert last_level_bytes(tmp_path) == (max(expected.values()) if expected else 64 * 2**20)


def test_every_cache_that_a_thread_may_fill_counts(tmp_path):
    """Eight cores with a last level for every two of them: one thread fills one of those, three threads three, sixteen all four."""
    for cpu in range(8):
        for index, level, size, shared in ((0, 1, "32K", f"{cpu}"), (1, 3, "32M", f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}")):
            folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
            facts = {"level": str(level), "type": "Unified", "size": size, "shared_cpu_list": shared}
            write(tmp_path, {f"{folder}/{name}": text for name, text in facts.items()})
    sizes = [last_level_bytes(tmp_path, cpus=range(8), threads=threads) for threads in (1, 3, 16)]
    assert sizes == [count * 32 * 2**20 for count in (1, 3, 4)]
    assert last_level_bytes(tmp_path, cpus=(2, 3), threads=16) == 32 * 2**20, "a process that may use two cores"


def test_missing_folder_gives_the_default(tmp_path):
    assert last_level_bytes(tmp_path / "absent") == 64 * 2**20


def test_flush_writes_twice_the_cache_every_time(monkeypatch):
    monkeypatch.setattr(cache, "last_level_bytes", lambda **_: 1000)
    flush = make_flush("cpu")
    first = flush().clone()
    assert first.numel() * first.element_size() == 2000
    assert not torch.equal(flush(), first), "what is written must differ, or nothing need be written"


def test_size_on_cuda_is_the_devices_second_level_cache(monkeypatch):
    asked, zeros = [], torch.zeros

    def properties(device):
        asked.append(str(device))
        return SimpleNamespace(L2_cache_size=5000)

    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch, "zeros", lambda size, dtype, device: zeros(size, dtype=dtype))
    assert make_flush("cuda:1")().numel() == 10_000
    assert asked == ["cuda:1"]
