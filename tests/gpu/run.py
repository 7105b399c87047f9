"""Measure one tier on a CUDA device in at most four minutes: `python tests/gpu/run.py`, or `tox run -e gpu`.

`--tier op`, the default: the tests of this folder, `normbench check` of the kernels, then RMSNorm and LayerNorm in bfloat16 from a cold
cache beside PyTorch's own, torch.compile's and, where installed, liger's and quack's, against the copy bandwidth of the same run.
`--tier throughput`: tokens per second of GPT-2 and LLaMA at real widths, training and serving, with energy; where there are two devices,
data-parallel training on both too. What there was no time for is in the report as interrupted. Needs an installed normbench and pytest;
further arguments go to `normbench run`.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
REPORTS = HERE.parent.parent / "reports"
LIMIT_S = 240
TESTS_S, CHECK_S, REPORT_S = 60, 30, 15
"""Most that the tests and the check may take, and what is kept back for writing the report."""

# quack's sweep first; then the decode batches that tell launch-bound from bandwidth-bound, at the widths of an 8B and a 70B model.
QUACK = "32768x256,32768x1024,32768x4096,32768x16384,32768x65536,16384x131072,8192x262144,32768x512,32768x2048,32768x8192,32768x32768"
DECODE = "1x4096,16x4096,256x4096,1x8192,16x8192,256x8192,64x5120,64x7168,64x2048"
OP = ["--dtype", "bfloat16", "--device", "cuda", "--cache", "cold", "--budget", "0.6"]

SIZES = {"gpt2": ("8x1024", "1024"), "llama": ("2x2048", "1024")}
"""Of each network the batch that it trains on, and the tokens of the sequences that it serves."""
THROUGHPUT = ["--device", "cuda", "--budget", "3", "--sustain", "0.5", "--timeout", "120"]
RANKS_S = 60
"""Most that two devices together may take."""


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


def throughput_cases() -> list[str]:
    """Return case ids, what matters most first: training in mixed precision, serving in bfloat16, training in float32."""
    kinds = ["train/{batch}/float32/autocast-bfloat16", "decode/1x{tokens}/bfloat16", "decode/64x{tokens}/bfloat16"]
    kinds += ["prefill/4x{tokens}/bfloat16", "decode/16x{tokens}/bfloat16", "train/{batch}/float32"]
    return [
        f"throughput/{network}-full/{norm}/{kind.format(batch=batch, tokens=tokens)}"
        for kind in kinds
        for network, (batch, tokens) in SIZES.items()
        for norm in ("layer_norm", "rms_norm")
    ]


def measure_op(left: Callable[[], float], further: list[str]) -> list[int]:
    codes = [run(["pytest", "-q", "-x", str(HERE)], TESTS_S)]
    codes.append(run(["normbench.cli", "check", "--provider", "triton", "--device", "cuda"], CHECK_S))
    choices = ["--grid", f"{QUACK},{DECODE}", "--norm", "rms_norm,layer_norm", "--pass", "forward,backward", "--provider", providers()]
    return [*codes, measure(REPORTS / "op-cuda", [*choices, *OP, *further], left())]


def measure_throughput(left: Callable[[], float], further: list[str]) -> list[int]:
    import torch

    several = torch.cuda.device_count() > 1
    choices = ["--case", ",".join(throughput_cases()), "--provider", "triton,aten,compile", *THROUGHPUT, *further]
    codes = [measure(REPORTS / "throughput-cuda", choices, left() - (RANKS_S if several else 0))]
    if several:
        ranks = ["--tier", "throughput", "--mode", "train", "--network", "gpt2", "--preset", "full", "--nproc", "2"]
        codes.append(measure(REPORTS / "throughput-ddp-cuda", [*ranks, "--provider", "triton,aten", *THROUGHPUT, *further], left()))
    return codes


def measure(report: Path, choices: list[str], limit_s: float) -> int:
    """Run `normbench run` and write its report to a folder; return the worse exit status."""
    code = run(["normbench.cli", "run", *choices], limit_s - REPORT_S)
    return max(code, run(["normbench.cli", "report", "latest", "--out", str(report)], REPORT_S), key=abs)


TIERS = {"op": measure_op, "throughput": measure_throughput}


def main() -> int:
    start = time.monotonic()
    # In the background of a script it comes ignored, and what is started here could not be told to stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0], allow_abbrev=False)
    parser.add_argument("--tier", choices=TIERS, default="op")
    asked, further = parser.parse_known_args()
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
    codes = TIERS[asked.tier](lambda: LIMIT_S - (time.monotonic() - start) - REPORT_S, further)
    print(f"{time.monotonic() - start:.0f} s in all; reports in {REPORTS}", flush=True)
    return max(codes, key=abs)


if __name__ == "__main__":
    sys.exit(main())
