"""The kernels as PyTorch operators: what can be told without running them, and the rest in Triton's interpreter."""

import pytest
import torch
from interpreter import run_interpreted
from torch._subclasses.fake_tensor import FakeTensorMode

from normbench.kernels.operator import backward_operator, forward_operator, norm


def test_operators(tmp_path):
    # gradcheck, opcheck, compiled graphs, autocast, second derivatives, transforms, two copies of the package.
    assert run_interpreted("operators.py", tmp_path)


def test_operators_are_named_after_the_module():
    assert str(forward_operator._opoverload) == "normbench_kernels_operator.forward.default"
    assert str(backward_operator._opoverload) == "normbench_kernels_operator.backward.default"


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_fake_tensors_run_no_kernel(name, residual):
    with FakeTensorMode():
        x = torch.empty(3, 5, 8, dtype=torch.bfloat16).transpose(0, 1).requires_grad_()
        weight = torch.empty(8, requires_grad=True)
        result = norm(x, weight, None, torch.empty_like(x) if residual else None, 1e-6, name=name)
        outputs = result if residual else (result,)
        dx, dweight = torch.autograd.grad(sum(output.float().sum() for output in outputs), [x, weight])
    assert len(outputs) == 1 + residual
    assert all((output.shape, output.dtype, output.is_contiguous()) == (x.shape, x.dtype, True) for output in outputs)
    assert (dx.shape, dx.dtype) == (x.shape, x.dtype)
    assert (dweight.shape, dweight.dtype) == (weight.shape, weight.dtype)


def test_meta_tensors_run_no_kernel():
    # Without the operator a kernel would be given the address 0.
    x = torch.empty(4, 8, device="meta", requires_grad=True)
    y = norm(x, torch.empty(8, device="meta"), None, None, 1e-6, name="rms_norm")
    assert (y.device.type, y.shape) == ("meta", x.shape)
    y.sum().backward()
    assert x.grad.device.type == "meta"
