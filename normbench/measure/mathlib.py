"""The buffers that PyTorch's matrix products keep by thread, in MKL, which a fork must not inherit."""

from __future__ import annotations

import ctypes
from pathlib import Path

__all__ = ["forget_buffers"]


def forget_buffers() -> None:
    """Have MKL let go of the buffers that it keeps for threads of this process, where this PyTorch has MKL.

    They are found by the number of their thread. A fork inherits those of threads that it has not, and two threads of such forks were
    seen to look theirs up for ever (`mm_account_ptr_by_tid`, torch 2.13.0 on x86-64): a product in their first pass never ended.
    """
    import torch

    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if library.exists() and (free := getattr(ctypes.CDLL(str(library)), "mkl_serv_free_buffers", None)) is not None:
        free.restype = None
        free()
