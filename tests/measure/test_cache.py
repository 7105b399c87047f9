"""A flush is larger than the last-level cache, whatever the system says of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from normbench.measure import cache
from normbench.measure.cache import last_level_bytes, make_flush


def write_sizes(root, *sizes: str) -> None:
    for number, size in enumerate(sizes):
        (root / f"index{number}").mkdir()
        (root / f"index{number}" / "size").write_text(f"{size}\n")


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        # As Linux writes it: two first-level caches, a second and a third level.
        (["48K", "32K", "2048K", "36864K"], 36864 * 1024),
        # No third level on many Arm cores.
        (["64K", "64K", "1024K"], 2**20),
        (["512M"], 512 * 2**20),
        # A virtual machine or a container that hides its caches.
        ([], 64 * 2**20),
        (["", "unknown", "K"], 64 * 2**20),
    ],
)
def test_largest_cache_counts(tmp_path, sizes, expected):
    write_sizes(tmp_path, *sizes)
    assert last_level_bytes(tmp_path) == expected


def test_missing_folder_gives_the_default(tmp_path):
    assert last_level_bytes(tmp_path / "absent") == 64 * 2**20


def test_flush_writes_twice_the_cache_every_time(monkeypatch):
    monkeypatch.setattr(cache, "last_level_bytes", lambda: 1000)
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
