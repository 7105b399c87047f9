"""Check and time a small CUDA grid in one go, in under four minutes: `python tests/gpu/run.py`, or `tox run -e gpu`.

Runs the tests of this folder, then normbench over two training shapes in bfloat16, from a cold cache, and prints where the report is.
Needs an installed normbench and pytest, and a CUDA device.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SHAPES = "8192x4096,32768x1024"
LIMIT_S = 240


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
    tests = subprocess.run([sys.executable, "-m", "pytest", "-q", str(HERE)], timeout=LIMIT_S).returncode
    choices = ["--grid", SHAPES, "--dtype", "bfloat16", "--device", "cuda", "--cache", "cold", "--budget", "4"]
    run = subprocess.run([sys.executable, "-m", "normbench.cli", "run", *choices, *sys.argv[1:]], timeout=LIMIT_S).returncode
    print(f"{time.monotonic() - start:.0f} s in all", flush=True)
    return tests or run


if __name__ == "__main__":
    sys.exit(main())
