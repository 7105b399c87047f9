"""A Triton kernel's numbers without a GPU: its provider against the oracle in Triton's interpreter, in a process of its own.

    python -m normbench.kernels.interpret op/rms_norm/forward/4096x4096/bfloat16

prints one line of JSON per case: passed, rows_checked of the rows asked for, and the accuracy of every output.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ..case import Case
from ..errors import NormbenchError, UsageError
from ..record import Accuracy

__all__ = ["InterpreterVerdict", "fewer_rows", "interpreter_check", "interpreter_checks", "rounds_to_nearest"]

MAX_ROWS = 61
"""Rows checked: prime, so that the last program of several rows is partly masked; a program takes milliseconds here."""

MAX_ELEMENTS = 2**19
"""Elements checked, but at least 3 rows: two chunks of float64, or 3 rows of 262144."""

TIMEOUT_S = 300.0


class InterpreterVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Hold how a case's kernel fared in the interpreter, and on how many rows it was tried."""

    case_id: str
    passed: bool
    rows_checked: int
    accuracy: tuple[Accuracy, ...]


def interpreter_check(case: Case, *, seed: int) -> InterpreterVerdict:
    """Check the provider `triton` on a case in a new process; see `interpreter_checks`."""
    return interpreter_checks([case], seed=seed)[0]


def interpreter_checks(cases: Sequence[Case], *, seed: int) -> list[InterpreterVerdict]:
    """Check the provider `triton` on each case in one new process that has TRITON_INTERPRET set, on a few rows each.

    Raises NormbenchError with the end of its output when the process fails.
    """
    command = [sys.executable, "-m", __name__, *(case.id for case in cases), "--seed", str(seed)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise NormbenchError(f"Triton's interpreter did not finish {len(cases)} cases within {TIMEOUT_S:g} s") from None
    lines = done.stdout.splitlines()
    if len(lines) != len(cases):
        tail = " | ".join(done.stderr.strip().splitlines()[-3:])
        raise NormbenchError(f"Triton's interpreter ended with code {done.returncode}: {tail}")
    return [msgspec.json.decode(line, type=InterpreterVerdict) for line in lines]


@contextmanager
def rounds_to_nearest() -> Iterator[None]:
    """Make the interpreter round float32 to bfloat16 to nearest, ties to even, as a GPU does.

    Triton's own interpreter (3.9) cuts the low bits off, which is up to one unit in the last place and always towards zero.
    """
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    cutting = interpreter._convert_float

    def convert(values: Any, source: Any, target: Any, rounding_mode: Any) -> Any:
        if source != tl.float32 or target != tl.bfloat16:
            return cutting(values, source, target, rounding_mode)
        bits = np.ascontiguousarray(values).view(np.uint32)
        # Rounding must not carry a NaN into infinity: the highest mantissa bit keeps it one.
        rounded = np.where(np.isnan(bits.view(np.float32)), bits | 0x0040_0000, bits + 0x7FFF + ((bits >> 16) & 1))
        return (rounded >> 16).astype(np.uint16)

    interpreter._convert_float = convert
    try:
        yield
    finally:
        interpreter._convert_float = cutting


def fewer_rows(case: Case) -> Case:
    """Return the case with as many rows as the interpreter gets through in seconds; its width stays."""
    rows = min(case.rows, MAX_ROWS, max(3, MAX_ELEMENTS // max(case.cols, 1)))
    return msgspec.structs.replace(case, shape=(rows, case.cols))


def _check_here(case: Case, *, seed: int) -> InterpreterVerdict:
    """Check a case in this process, which must have had TRITON_INTERPRET set before Triton was imported."""
    import torch

    from ..check import check
    from ..problem import make_problem
    from ..registry import Registry
    from ..workloads.op import outputs_of

    provider = Registry().resolve("triton")
    if reason := provider.unsupported(case, "cpu"):
        raise UsageError(f"case {case.id}: triton {reason}")
    few = fewer_rows(case)
    problem = make_problem(few, device="cpu", seed=seed)
    with rounds_to_nearest(), torch.set_grad_enabled(few.pass_.has_backward):
        outputs = outputs_of(problem, provider.prepare(few))
    accuracy = check(few, problem, {"triton": outputs})["triton"]
    return InterpreterVerdict(case_id=case.id, passed=all(entry.passed for entry in accuracy), rows_checked=few.rows, accuracy=accuracy)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the cases named on the command line; return 0 when all passed, 1 when one did not, 2 when one cannot be checked."""
    parser = argparse.ArgumentParser(prog="python -m normbench.kernels.interpret", description=_check_here.__doc__)
    parser.add_argument("case_id", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    os.environ["TRITON_INTERPRET"] = "1"
    passed = True
    try:
        for case_id in chosen.case_id:
            verdict = _check_here(Case.from_id(case_id), seed=chosen.seed)
            print(msgspec.json.encode(verdict).decode(), flush=True)
            passed &= verdict.passed
    except NormbenchError as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
