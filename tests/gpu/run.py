"""Check every kernel on a CUDA device and time the quack and decode grids: `python tests/gpu/run.py`, or `tox run -e gpu`.

At most four minutes: the tests of this folder, `normbench check` of the kernels, then RMSNorm and LayerNorm in bfloat16 from a cold
cache beside PyTorch's own, torch.compile's and, where installed, liger's and quack's, against the copy bandwidth of the same run. What
there was no time for is in the report as interrupted. Needs an installed normbench and pytest; further arguments go to `normbench run`.
"""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
REPORT = HERE.parent.parent / "reports" / "op-cuda"
LIMIT_S = 240
TESTS_S, CHECK_S, REPORT_S = 60, 30, 15
"""Most that the tests and the check may take, and what is kept back for writing the report."""

# quack's sweep first; then the decode batches that tell launch-bound from bandwidth-bound, at the widths of an 8B and a 70B model.
QUACK = "32768x256,32768x1024,32768x4096,32768x16384,32768x65536,16384x131072,8192x262144,32768x512,32768x2048,32768x8192,32768x32768"
DECODE = "1x4096,16x4096,256x4096,1x8192,16x8192,256x8192,64x5120,64x7168,64x2048"
CHOICES = ["--dtype", "bfloat16", "--device", "cuda", "--cache", "cold", "--budget", "0.6"]


def providers() -> str:
    """Return who is timed: the built-in providers that run on a GPU, and the peers that are installed."""
    peers = {"liger": "liger_kernel", "quack": "quack"}
    found = [name for name, module in peers.items() if importlib.util.find_spec(module) is not None]
    return ",".join(["triton", "aten", "compile", *found])


def run(command: list[str], limit_s: float) -> int:
    """Run `python -m ...` for at most so long; then interrupt it, as Ctrl-C does, which keeps what it has measured."""
    print(f"$ python -m {' '.join(command)}", flush=True)
    process = subprocess.Popen([sys.executable, "-m", *command])
    try:
        return process.wait(timeout=max(limit_s, 1))
    except subprocess.TimeoutExpired:
        print(f"interrupted after {limit_s:.0f} s", flush=True)
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(timeout=REPORT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def main() -> int:
    start = time.monotonic()
    device = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    if not device:
        print("no CUDA device: nothing was checked and nothing was timed", file=sys.stderr)
        return 2
    print(f"CUDA device: {device}", flush=True)
    codes = [run(["pytest", "-q", "-x", str(HERE)], TESTS_S)]
    codes.append(run(["normbench.cli", "check", "--provider", "triton", "--device", "cuda"], CHECK_S))
    left = LIMIT_S - (time.monotonic() - start) - 2 * REPORT_S
    shapes = f"{QUACK},{DECODE}"
    choices = ["--grid", shapes, "--norm", "rms_norm,layer_norm", "--pass", "forward,backward", "--provider", providers(), *CHOICES]
    codes.append(run(["normbench.cli", "run", *choices, *sys.argv[1:]], left))
    codes.append(run(["normbench.cli", "report", "latest", "--out", str(REPORT)], REPORT_S))
    print(f"{time.monotonic() - start:.0f} s in all; report in {REPORT}", flush=True)
    return max(codes, key=abs)


if __name__ == "__main__":
    sys.exit(main())
