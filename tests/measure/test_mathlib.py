"""Forgetting MKL's buffers leaves products as they were, here and in forks that come after."""

import subprocess
import sys
import textwrap

SCRIPT = """
    import os
    import threading
    import torch
    from normbench.measure.mathlib import forget_buffers

    # A fork must not inherit threads that wait for work: what needs several runs in a thread that ends.
    torch.set_num_threads(1)
    a, b = torch.ones(64, 256), torch.ones(256, 512)

    def multiply():
        torch.set_num_threads(2)
        return torch.mm(a, b)

    thread = threading.Thread(target=multiply)
    thread.start()
    thread.join()
    torch.set_num_threads(1)
    for _ in range(2):
        forget_buffers()
    assert bool((torch.mm(a, b) == 256).all())
    forget_buffers()
    child = os.fork()
    if child == 0:
        os._exit(0 if bool((multiply() == 256).all()) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_products_are_right_after_buffers_are_forgotten_and_in_forks():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
