"""A process has the page state it asked for: large outputs come from pages that were kept, or from new ones each time."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest

from normbench.cases.conditions import Pages
from normbench.errors import NormbenchError
from normbench.measure import pages
from normbench.measure.pages import WITHOUT_THREAD_CACHE, page_control_reason, set_pages

PAGE_BYTES = 4096
glibc_only = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the page state is set through glibc's mallopt")

# The page state cannot be undone, so each test has a process of its own. Huge pages are switched off in it (PR_SET_THP_DISABLE), or a
# machine that hands them out unasked would count one fault for 512 pages.
_PRELUDE = """
import ctypes, json, sys
from resource import RUSAGE_SELF, getrusage
from normbench.cases.conditions import Pages
from normbench.measure.pages import set_pages
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
libc.malloc.argtypes = libc.sbrk.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.prctl(41, 1, 0, 0, 0)

def write(size):
    block = libc.malloc(size)
    libc.memset(block, 1, size)
    libc.free(block)

def faults_of(function, *arguments):
    before = getrusage(RUSAGE_SELF).ru_minflt
    function(*arguments)
    return getrusage(RUSAGE_SELF).ru_minflt - before
"""


def run(code: str):
    environment = {**os.environ, **WITHOUT_THREAD_CACHE}
    completed = subprocess.run([sys.executable, "-c", _PRELUDE + code], stdout=subprocess.PIPE, check=True, env=environment)
    return json.loads(completed.stdout)


def faults_of_calls(state: Pages, size: int, calls: int) -> list[int]:
    """Return the page faults of each of some calls that allocate, write and free `size` bytes."""
    return run(f"set_pages(Pages({state.value!r}))\nprint(json.dumps([faults_of(write, {size}) for _ in range({calls})]))")


# 1 MiB is where an output begins to count; 64 MiB lies beyond the 32 MiB up to which glibc would keep pages by itself.
SIZES = pytest.mark.parametrize("size", [2**20, 2**26], ids=["1 MiB", "64 MiB"])


@glibc_only
@SIZES
def test_reused_pages_fault_in_the_first_call_only(size):
    first, *others = faults_of_calls(Pages.REUSED, size, calls=5)
    assert first <= 1.1 * size / PAGE_BYTES + 100
    # The interpreter's own objects may touch a page now and then.
    assert max(others) <= 10


@glibc_only
def test_reused_pages_are_those_of_a_graph_of_tensors_too():
    # Aligned blocks that live and die in each other's time, with a graph's small nodes in between, are what makes a heap grow.
    code = """
import torch
torch.set_num_threads(1)
set_pages(Pages.REUSED)
x, dy = (torch.ones(1024, 4096).requires_grad_(number == 0) for number in range(2))
torch.empty(12 * x.nbytes, dtype=torch.uint8).fill_(1)

def layer_norm():
    centred = x - x.mean(-1, keepdim=True)
    torch.autograd.grad(centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5), x, dy)

print(json.dumps([faults_of(layer_norm) for _ in range(4)]))
"""
    # One tensor is 4096 pages.
    assert max(run(code)[1:]) <= 409


@glibc_only
@SIZES
def test_fresh_pages_fault_in_every_call(size):
    for faults in faults_of_calls(Pages.FRESH, size, calls=5):
        assert faults == pytest.approx(size / PAGE_BYTES, rel=0.05)


@glibc_only
def test_fresh_pages_stay_fresh_as_blocks_are_freed():
    # Left to itself glibc takes the size of each freed block, up to 32 MiB, as the new limit of what it keeps: here before the state is
    # set, and after.
    code = f"""
write({2**24})
set_pages(Pages.FRESH)
print(json.dumps([faults_of(write, {2**24}) for _ in range(20)]))
"""
    assert min(run(code)) >= 0.95 * 2**24 / PAGE_BYTES


@glibc_only
def test_pages_of_tensors_are_reused():
    # PyTorch asks for aligned blocks, which glibc cuts out of larger ones; what is cut off must not keep a freed tensor's pages from
    # being used again. 16 MiB is in the middle of what a norm's output takes. Seven calls follow the first.
    numel = 2**22
    code = f"""
import torch
torch.set_num_threads(1)
set_pages(Pages.REUSED)
print(json.dumps([faults_of(torch.ones, {numel}) for _ in range(8)]))
"""
    # A block that something small came to lie behind is given up now and then, but not in every call.
    assert sum(run(code)[1:]) < 1.1 * numel * 4 / PAGE_BYTES


@glibc_only
def test_several_outputs_at_once_are_reused_too():
    code = f"""
set_pages(Pages.REUSED)
def write_several():
    blocks = [libc.malloc({2**22}) for _ in range(4)]
    for block in blocks:
        libc.memset(block, 1, {2**22})
    for block in blocks:
        libc.free(block)
print(json.dumps([faults_of(write_several) for _ in range(4)]))
"""
    assert max(run(code)[1:]) <= 10


@glibc_only
def test_more_than_two_gib_are_kept():
    # mallopt takes an int; the largest, 2**31 - 1, would give a free top of the heap back from 2 GiB on. Nothing is written here, so
    # the memory is not needed, only its addresses.
    size = 5 * 2**29
    code = f"""
set_pages(Pages.REUSED)
ends = [libc.sbrk(0)]
block = libc.malloc({size})
ends.append(libc.sbrk(0))
libc.free(block)
ends.append(libc.sbrk(0))
print(json.dumps([block is not None, *ends]))
"""
    has_block, before, during, after = run(code)
    assert has_block
    assert during - before >= size
    assert after == during


@pytest.mark.parametrize(("libc", "named"), [(("", ""), "Darwin"), (("musl", "1.2"), "musl")])
def test_other_c_libraries_are_named(monkeypatch, libc, named):
    monkeypatch.setattr(pages.platform, "libc_ver", lambda: libc)
    monkeypatch.setattr(pages.platform, "system", lambda: "Darwin")
    assert named in page_control_reason()
    with pytest.raises(NormbenchError, match=rf"pages 'fresh' cannot be had here: .*{named}"):
        set_pages(Pages.FRESH)


def test_refused_option_is_named(monkeypatch):
    class Refusing:
        def __init__(self, name) -> None:
            pass

        def mallopt(self, option, value) -> int:
            return 0

    monkeypatch.setattr(pages.platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(pages.ctypes, "CDLL", Refusing)
    with pytest.raises(NormbenchError, match=r"mallopt\(1, 0\) was refused, so pages 'reused'"):
        set_pages(Pages.REUSED)


@glibc_only
def test_glibc_offers_control():
    assert page_control_reason() is None
