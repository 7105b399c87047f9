"""The two tools that come with Triton and read machine code: cuobjdump and nvdisasm."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..errors import NormbenchError
from .machine_code import Resources, parse_resources, split_listing

__all__ = ["disassemble", "resources_of"]

TIMEOUT_S = 120


def resources_of(cubin: bytes) -> Resources:
    """Return what the assembler reserved for the one kernel of a cubin."""
    import triton

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return parse_resources(_run([triton.knobs.nvidia.cuobjdump.path, "-res-usage", file.name]))


def disassemble(codes: Sequence[bytes], capability: int) -> list[list[str]]:
    """Return the instructions of each code, all of one compute capability such as 90.

    They go through nvdisasm in one go: it takes 0.25 s to start and 0.02 s for a kernel.
    """
    import triton

    if not codes:
        return []
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(b"".join(codes))
        file.flush()
        # Triton assembles for the features of the one architecture ("a") from 9.0 on.
        architecture = f"SM{capability}{'a' if capability >= 90 else ''}"
        command = [triton.knobs.nvidia.nvdisasm.path, "--binary", architecture, "--no-dataflow", file.name]
        return split_listing(_run(command), [len(code) for code in codes])


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NormbenchError(f"{Path(command[0]).name} could not be run: {error}") from error
    if done.returncode:
        raise NormbenchError(f"{Path(command[0]).name} ended with code {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout
