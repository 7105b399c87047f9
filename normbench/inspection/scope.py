"""What is inspected unless told otherwise, and what has a budget. Pure: words and numbers that the command line shows in its help."""

from __future__ import annotations

__all__ = ["ARCHITECTURES", "COLS", "CONVENTIONS", "DTYPES", "NORMS", "PASSES", "ROWS"]

COLS = (64, 128, 256, 512, 1024, 2048, 3072, 4096, 5120, 7168, 8192, 16_384, 32_768, 65_536, 131_072)
"""Widths with a budget: powers of two from one attention head to rows of 256 KiB, and hidden sizes between them (3072, 5120, 7168)."""

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
"""A100, H100 and B200: three generations with three code generators."""

DTYPES = ("float32", "bfloat16", "float16")
NORMS = ("layer_norm", "rms_norm", "add_layer_norm", "add_rms_norm")
PASSES = ("forward", "forward_backward")

CONVENTIONS = ("torch", "llama", "gemma")
"""All there are: a convention is a compile-time argument, and its machine code has registers of its own to run out of."""

ROWS = 16
"""Rows of the tensors that launches are captured with. Batches are multiples of 16 in practice, and Triton compiles for that."""
