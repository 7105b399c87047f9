"""Operators of one name in two versions, and the functions of torch.library that are given the name."""

from __future__ import annotations

import pytest
import torch

from normbench.gate.namespace import Namespace, imports_redirected
from normbench.gate.operators import operators_kept_apart
from normbench.gate.trees import Tree

from .repositories import write

CODE = """
    import torch
    from torch import Tensor

    @torch.library.custom_op("operators_test::scaled", mutates_args=())
    def scaled(x: Tensor) -> Tensor:
        return x * {value}

    @torch.library.register_fake("operators_test::scaled")
    def _(x):
        return torch.empty_like(x)

    torch.library.register_autograd("operators_test::scaled", lambda ctx, dy: dy * {value})

    def gradient():
        x = torch.ones(3, requires_grad=True)
        return torch.autograd.grad(scaled(x).sum(), x)[0]
"""


@pytest.fixture
def versions(tmp_path):
    """Two modules that define the same operator, one that multiplies by 2 and one by 3."""
    trees = []
    for name, value in (("base", 2), ("head", 3)):
        write(tmp_path / name, {"ops.py": CODE.format(value=value)})
        trees.append(Tree(root=tmp_path / name, top=tmp_path / name, label=name))
    namespaces = [Namespace(f"_operators_{tree.label}", tree, trees) for tree in trees]
    before = torch.library.custom_op
    with imports_redirected(namespaces), operators_kept_apart(namespaces):
        yield [namespace.import_module("ops") for namespace in namespaces]
    assert torch.library.custom_op is before
    for namespace in namespaces:
        namespace.close()


def test_each_version_runs_its_own(versions):
    assert [int(version.scaled(torch.ones(3))[0]) for version in versions] == [2, 3]


def test_what_is_added_by_name_goes_to_the_version_that_adds_it(versions):
    assert [int(version.gradient()[0]) for version in versions] == [2, 3]
    assert [version.scaled(torch.ones(3, device="meta")).shape for version in versions] == [(3,), (3,)]


def test_operators_of_other_code_keep_their_name(versions):
    @torch.library.custom_op("operators_test::of_other_code", mutates_args=())
    def of_other_code(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    assert torch.ops.operators_test.of_other_code(torch.ones(2)).sum() == 2
