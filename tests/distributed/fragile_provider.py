"""A provider for two ranks that is right on both, but with batches of its own makes rank 1 die or hang once the ranks have met."""

import os
import signal
import time

import torch

import normbench

HANGING, DYING = 3, 5
"""Batches."""


@normbench.provider("fragile", norms=["rms_norm"])
def fragile(x, weight, bias, residual, eps):
    if torch.distributed.is_initialized() and torch.distributed.get_rank() == 1:
        if x.shape[0] == DYING:
            print("rank 1 is about to die", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if x.shape[0] == HANGING:
            print("rank 1 is about to hang", flush=True)
            time.sleep(600)
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)
