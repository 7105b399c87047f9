"""What the tests of this folder need: they run where TRITON_INTERPRET is set (see `interpreter.run_interpreted`)."""

import os
from types import FunctionType

import pytest


class _Kept:
    """A scope whose changes stay."""

    def restore(self):
        pass


@pytest.fixture(autouse=True)
def same_numbers():
    """Draw the same numbers in every run."""
    import torch

    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def interpreter():
    """Make Triton's interpreter round as a GPU does, and fast enough for thousands of inputs."""
    assert os.environ.get("TRITON_INTERPRET"), "run these by the tests that name them: they set TRITON_INTERPRET for a process of its own"
    import numpy as np
    import torch
    import triton.language as tl
    from triton.runtime import interpreter

    from normbench.kernels.interpret import rounds_to_nearest

    # It replaces all of triton.language anew for each launch and each call of a device function: 3 ms a time, two thirds of the time
    # of a small kernel. Once is enough where nothing else uses it.
    interpreter._patch_lang(FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core}))
    interpreter._patch_lang = lambda _: _Kept()
    torch.set_num_threads(1)
    # A GPU does not warn of what it makes of a NaN, or of lanes that nothing is stored from.
    with rounds_to_nearest(), np.errstate(all="ignore"):
        yield
