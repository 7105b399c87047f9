"""A kernel of your own as a provider: check, time, report and inspect it like the built-in ones.

normbench check --provider examples/my_kernel.py
normbench inspect --provider examples/my_kernel.py --arch sm_90
normbench run --provider aten,examples/my_kernel.py --grid decode --device cuda
"""

import torch
import triton
import triton.language as tl

import normbench


@triton.jit
def my_kernel(x_ptr, weight_ptr, y_ptr, N, eps, BLOCK: tl.constexpr):
    row, col = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + col, mask=col < N, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + col, mask=col < N, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x) / N + eps) * weight
    tl.store(y_ptr + row * N + col, y.to(y_ptr.dtype.element_ty), mask=col < N)


def supports(case, device):
    """Return why a case cannot be computed, or None."""
    if case.pass_ != "forward" or case.residual or case.bias or case.weight_dtype is None or case.convention != "torch":
        return "forward of a plain RMSNorm with a weight only"
    if "float64" in (case.dtype, case.weight_dtype):
        return "computes in float32, which is not enough for float64"
    return "rows of at most 65536 elements" if case.cols > 65536 else None


# From here on it is six lines: the decorator, the signature, and what launches the kernel.
@normbench.provider("mine", norms=["rms_norm"], supports=supports, interpret_on_cpu=True)
def mine(x, weight, bias, residual, eps):
    rows, cols = x.shape[:-1].numel(), x.shape[-1]
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        my_kernel[(rows,)](x.contiguous(), weight.contiguous(), y, cols, eps, BLOCK=triton.next_power_of_2(cols))
    return y
