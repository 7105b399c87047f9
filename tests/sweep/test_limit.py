"""A limit of memory is stated, is refused where it cannot hold, and holds."""

from __future__ import annotations

import platform
import resource

import pytest
import torch

from normbench.errors import UsageError
from normbench.sweep.limit import anonymous_bytes, bytes_of, choose_limit, limited

MIB, GIB = 2**20, 2**30
CPU = {"type": "cpu"}
CUDA = {"type": "cuda", "memory_bytes": 80 * GIB, "free_bytes": 79 * GIB}
on_linux = pytest.mark.skipif(platform.system() != "Linux", reason="the limit is Linux's RLIMIT_DATA")


@pytest.mark.parametrize(
    ("text", "count"),
    [("512MiB", 512 * MIB), ("2GiB", 2 * GIB), ("1.5 gib", 3 * GIB // 2), ("2GB", 2 * 10**9), ("4096", 4096), ("1k", None)],
)
def test_amounts_of_memory_are_read(text, count):
    if count is None:
        with pytest.raises(UsageError, match="no amount of memory"):
            bytes_of(text)
    else:
        assert bytes_of(text) == count


@pytest.mark.parametrize("text", ["", "much", "-1GiB", "0", "0.1B", "99999999999TiB", "2 GiB 3"])
def test_what_is_no_amount_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="such as 512MiB or 2GiB"):
        bytes_of(text)


@on_linux
def test_limit_on_cpu_is_what_was_asked_for_or_what_is_available_but_for_a_margin():
    asked = choose_limit(GIB, CPU, available_bytes=4 * GIB)
    assert (asked.limit_bytes, "1.00 GiB" in asked.words, "RLIMIT_DATA" in asked.words) == (GIB, True, True)
    small, large = (choose_limit(None, CPU, available_bytes=available) for available in (4 * GIB, 64 * GIB))
    assert (small.limit_bytes, large.limit_bytes) == (3 * GIB, 56 * GIB)
    assert "but for a margin of 8.00 GiB" in large.words


@on_linux
def test_limit_that_the_machine_cannot_give_is_refused():
    with pytest.raises(UsageError, match=r"more than the 4\.00 GiB that are available"):
        choose_limit(5 * GIB, CPU, available_bytes=4 * GIB)
    with pytest.raises(UsageError, match="no more than the margin"):
        choose_limit(None, CPU, available_bytes=GIB)


def test_limit_cannot_be_held_on_another_system(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(UsageError, match="no limit of memory can be held on Darwin"):
        choose_limit(GIB, CPU, available_bytes=4 * GIB)


def test_limit_on_cuda_is_the_device_or_a_share_of_it():
    whole, part = choose_limit(None, CUDA), choose_limit(8 * GIB, CUDA)
    assert (whole.limit_bytes, part.limit_bytes) == (None, 8 * GIB)
    assert "80.0 GiB, of which 79.0 GiB were free" in whole.words
    assert "set_per_process_memory_fraction" in part.words
    with pytest.raises(UsageError, match=r"more than the device's 80\.0 GiB"):
        choose_limit(81 * GIB, CUDA)


@on_linux
def test_torch_cannot_allocate_beyond_the_limit_and_can_again_after_it():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited(256 * MIB, "cpu"):
        torch.empty(64 * MIB, dtype=torch.uint8)
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            torch.empty(512 * MIB, dtype=torch.uint8)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    torch.empty(512 * MIB, dtype=torch.uint8)


def test_without_a_limit_nothing_is_changed():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited(None, "cpu"):
        assert resource.getrlimit(resource.RLIMIT_DATA) == before


@on_linux
def test_memory_that_was_touched_is_counted():
    before = anonymous_bytes()
    held = torch.ones(64 * MIB, dtype=torch.uint8)
    assert 64 * MIB <= anonymous_bytes() - before < 80 * MIB
    del held
