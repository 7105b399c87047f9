"""Triton kernels of two versions in one process; `gate/test_arms.py` runs this where Triton interprets them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import normbench
from normbench.cases.case import Case
from normbench.gate.arms import SideBySide
from normbench.gate.trees import folder_tree

CASE = Case.make("rms_norm", "forward_backward", (6, 128), "float32")

KERNELS = """
import torch
import triton
import triton.language as tl
from normbench import provider
from tiles import scaled

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + index, scaled(tl.load(x + index, mask=index < n)), mask=index < n)

@provider("mine", norms=["rms_norm"])
def mine(x, weight, bias, residual, eps):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
"""
TILES = """
import triton
import triton.language as tl

FACTOR = tl.constexpr({value})

@triton.jit
def scaled(v):
    return v * FACTOR
"""


@pytest.fixture
def trees(tmp_path):
    """Two folders whose kernels differ in a constant of another module."""
    folders = {name: tmp_path / name for name in ("base", "head")}
    for value, folder in enumerate(folders.values(), start=2):
        folder.mkdir()
        (folder / "kernels.py").write_text(KERNELS)
        (folder / "tiles.py").write_text(TILES.format(value=value))
    return folders


def test_kernels_of_both_versions_run_their_own(trees):
    with SideBySide(base=folder_tree(trees["base"]), head=folder_tree(trees["head"])) as arms:
        pair = arms.pair("kernels.py")
        functions = [arm.prepare(CASE) for arm in (pair.base, pair.head, pair.base)]
        assert [function(torch.ones(6, 128), None, None, None, 1e-6)[0, 0].item() for function in functions] == [2, 3, 2]


def test_kernels_of_both_versions_of_normbench_run_and_compile(trees):
    for folder in trees.values():
        shutil.copytree(Path(normbench.__file__).parent, folder / "normbench", ignore=shutil.ignore_patterns("__pycache__"))
    parts = trees["head"] / "normbench/kernels/operator.py"
    parts.write_text(parts.read_text().replace("    return done.y, _present(", "    return 2 * done.y, _present("))
    with SideBySide(base=folder_tree(trees["base"]), head=folder_tree(trees["head"])) as arms:
        pair = arms.pair("triton")
        x, weight = torch.ones(6, 128), torch.ones(128, requires_grad=True)
        eager = [arm.prepare(CASE) for arm in (pair.base, pair.head)]
        sums = [torch.autograd.grad(function(x, weight, None, None, 1e-6).sum(), weight)[0][0].item() for function in eager]
        assert sums == pytest.approx([6, 6])
        # Compiled, the operator is called, which only the head's doubles.
        compiled = [torch.compile(function, backend="eager") for function in eager]
        assert [function(x, weight, None, None, 1e-6)[0, 0].item() for function in compiled] == pytest.approx([1, 2])
