"""Where the pages of a call's outputs come from: kept by the allocator, or taken anew from the kernel.

On a virtual machine this decides more than the kernel under test: a page fault costs about 5 us per 4 KiB there, so a call whose outputs
are new pages can take five times as long. glibc decides by size and history; here it is set, once per process, before the first
large tensor. CUDA tensors come from PyTorch's caching allocator, whose pages are always reused.
"""

from __future__ import annotations

import ctypes
import platform

from ..cases.conditions import Pages
from ..errors import NormbenchError

__all__ = ["WITHOUT_THREAD_CACHE", "page_control_reason", "set_pages"]

# malloc.h of glibc; mallopt takes an int. A trim threshold of -1 turns trimming off (2**31 - 1 would still trim a 2 GiB top).
_M_MXFAST, _M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = 1, -1, -2, -3, -4
_FRESH_BYTES = 128 * 1024
# Without fast bins a small block that is freed joins its neighbours at once.
_REUSED_OPTIONS = ((_M_MXFAST, 0), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1), (_M_TOP_PAD, 64 * 1024 * 1024))
# Setting the threshold also stops glibc from raising it to 32 MiB as blocks are freed.
_FRESH_OPTIONS = ((_M_MMAP_MAX, 65536), (_M_MMAP_THRESHOLD, _FRESH_BYTES), (_M_TRIM_THRESHOLD, _FRESH_BYTES), (_M_TOP_PAD, 0))
_CRUMB_BYTES, _CRUMB_BLOCKS = range(24, 152, 16), 1000
_RESERVE_BYTES, _RESERVE_BLOCKS = 256 * 1024, 64
_SEPARATOR_BYTES = 1024

WITHOUT_THREAD_CACHE = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""Environment of a process whose pages can be set: what a thread keeps for itself when it is freed does not join its neighbours. Its
cost was not to be seen: layer_norm of 8x64 took 4.5 to 8.6 us with the cache and 4.9 to 5.2 without, in three processes each."""


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
        _lay_in_small_blocks(libc)


def _lay_in_small_blocks(libc: ctypes.CDLL) -> None:
    """Leave free blocks for everything small, so that nothing small takes a bite out of the blocks that tensors leave.

    PyTorch asks for blocks at multiples of 64 bytes; glibc cuts those out of larger ones, which leaves crumbs beside them, and for a
    small request takes the smallest free block there is: first the crumbs, then the block of the tensor freed last. Either way the
    next tensor of that size does not fit any more. Eager LayerNorm of 32768x4096, forward and backward, met 1 000 000 new pages a
    call and took 5.5 s; with small blocks of every kind laid in it meets none and takes 1.3 s. What lies between the blocks keeps
    them from joining.
    """
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    for size, count, separator in (
        *((crumb, _CRUMB_BLOCKS, crumb) for crumb in _CRUMB_BYTES),
        (_RESERVE_BYTES, _RESERVE_BLOCKS, _SEPARATOR_BYTES),
    ):
        blocks = []
        for _ in range(count):
            blocks.append(libc.malloc(size))
            libc.malloc(separator)
        for block in blocks:
            libc.free(block)
