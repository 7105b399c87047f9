"""Where the pages of a call's outputs come from: kept by the allocator, or taken anew from the kernel.

On a virtual machine this decides more than the kernel under test: a page fault costs about 5 us per 4 KiB there, so a call whose outputs
are new pages can take five times as long. glibc decides by size and history; here it is set, once per process, before the first
large tensor. CUDA tensors come from PyTorch's caching allocator, whose pages are always reused.
"""

from __future__ import annotations

import ctypes
import platform

from ..case import Pages
from ..errors import NormbenchError

__all__ = ["page_control_reason", "set_pages"]

# malloc.h of glibc; mallopt takes an int. A trim threshold of -1 turns trimming off (2**31 - 1 would still trim a 2 GiB top).
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -2, -3, -4
_FRESH_BYTES = 128 * 1024
_REUSED_OPTIONS = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1), (_M_TOP_PAD, 64 * 1024 * 1024))
# Setting the threshold also stops glibc from raising it to 32 MiB as blocks are freed.
_FRESH_OPTIONS = ((_M_MMAP_MAX, 65536), (_M_MMAP_THRESHOLD, _FRESH_BYTES), (_M_TRIM_THRESHOLD, _FRESH_BYTES), (_M_TOP_PAD, 0))
_BIN_LENGTH = 7
_CRUMB_BYTES = range(24, 152, 16)


def page_control_reason() -> str | None:
    """Return why the page state cannot be set on this machine, or None when it can."""
    if platform.libc_ver()[0] != "glibc":
        return (
            f"the page state is set through glibc's mallopt, and this system's C library is {platform.libc_ver()[0] or platform.system()}"
        )
    return None


def set_pages(pages: Pages) -> None:
    """Set the allocator of this process so that large blocks are `reused` or `fresh` from now on. It cannot be undone.

    Raises NormbenchError where the C library offers no control, or refuses an option.
    """
    if reason := page_control_reason():
        raise NormbenchError(f"pages {pages.value!r} cannot be had here: {reason}")
    libc = ctypes.CDLL(None)
    for option, value in _REUSED_OPTIONS if pages is Pages.REUSED else _FRESH_OPTIONS:
        if libc.mallopt(option, value) != 1:
            raise NormbenchError(f"mallopt({option}, {value}) was refused, so pages {pages.value!r} cannot be had here")
    if pages is Pages.REUSED:
        _fill_small_bins(libc)


def _fill_small_bins(libc: ctypes.CDLL) -> None:
    """Leave no room for crumbs in this thread's cache of free blocks.

    PyTorch asks for blocks at multiples of 64 bytes. glibc cuts those out of larger ones, and a crumb that the thread's cache takes in
    keeps the block beside it from being joined with the free memory behind. The next call then needs a new place: five tensors of
    16 MiB, each freed before the next, took 4096 new pages each. With full bins (7 blocks of each size) none did after the first.
    """
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    for size in _CRUMB_BYTES:
        # Twice as many, so that those freed do not lie side by side up to the end of the heap.
        blocks = [libc.malloc(size) for _ in range(2 * _BIN_LENGTH)]
        for block in blocks[::2]:
            libc.free(block)
