"""Run in a process with TRITON_INTERPRET set: what the kernels do beyond a contiguous problem, printed as JSON for the tests."""

import json

import torch

from normbench.kernels.interpret import rounds_to_nearest
from normbench.kernels.layer_norm import layer_norm
from normbench.kernels.rms_norm import rms_norm

# Just past the widest row kept on chip, in steps of 8192: the last step holds a single column.
LOOPED = 16385


def sliced_from_qkv():
    """Normalise a slice of a wider tensor, whose rows have a stride of their own, and return whether it equals a copy's."""
    qkv = torch.randn(3, (4 + 2 + 2) * 16)
    before = qkv.clone()
    q = qkv.split([64, 32, 32], -1)[0]
    weight, bias = torch.randn(64), torch.randn(64)
    norms = [lambda x: layer_norm(x, weight, bias, None, 1e-5), lambda x: rms_norm(x, weight, None, None, 1e-6)]
    same = all(torch.equal(norm(q), norm(q.contiguous())) for norm in norms)
    heads = rms_norm(q.view(3, 4, 16), None, None, None, 1e-6)
    return same and torch.equal(heads, rms_norm(q.reshape(3, 4, 16).clone(), None, None, None, 1e-6)) and torch.equal(qkv, before)


def transposed():
    x = torch.randn(8, 5).T
    return torch.equal(rms_norm(x, None, None, None, 1e-6), rms_norm(x.contiguous(), None, None, None, 1e-6))


def residual_of_other_strides():
    x, residual = torch.randn(5, 8), torch.randn(5, 16)[:, :8]
    y, total = rms_norm(x, None, None, residual, 1e-6)
    plain, plain_total = rms_norm(x, None, None, residual.contiguous(), 1e-6)
    return torch.equal(y, plain) and torch.equal(total, plain_total) and torch.equal(total, x + residual)


def statistics(cols):
    """Return the largest relative error of mean and rstd against float64."""
    x = torch.randn(3, cols) + 3
    mean, rstd, rms = (torch.full((3,), float("nan")) for _ in range(3))
    layer_norm(x, None, None, None, 1e-5, mean=mean, rstd=rstd)
    rms_norm(x, None, None, None, 1e-6, rstd=rms)
    wide = x.double()
    wanted = [wide.mean(-1), (wide.var(-1, correction=0) + 1e-5).rsqrt(), (wide.square().mean(-1) + 1e-6).rsqrt()]
    return max(((got - want).abs() / want).max().item() for got, want in zip((mean, rstd, rms), wanted, strict=True))


def row_of(values, *, cols=None):
    x = torch.tensor([values]) if cols is None else torch.full((1, cols), values)
    return layer_norm(x, None, None, None, 1e-5)[0]


def rounding():
    """Return what float32 values become when y is bfloat16: ties go to even, and a large mantissa carries into the exponent."""
    weight = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-16, 2 - 2**-10, float("nan")])
    y = rms_norm(torch.ones(1, 5, dtype=torch.bfloat16), weight, None, None, 0.0)[0].tolist()
    return [*y[:4], y[4] != y[4]]


with rounds_to_nearest():
    torch.manual_seed(0)
    print(
        json.dumps(
            {
                "sliced from qkv": sliced_from_qkv(),
                "transposed": transposed(),
                "residual of other strides": residual_of_other_strides(),
                "statistics": statistics(100),
                "statistics looped": statistics(LOOPED),
                "mean 1002": row_of([1001.0, 1002.0, 1003.0]).tolist(),
                "mean 40001.5": row_of([40000.0, 40001.0, 40002.0, 40003.0]).tolist(),
                "constant": row_of(1234.0, cols=300).abs().max().item(),
                "constant looped": row_of(1234.0, cols=LOOPED).abs().max().item(),
                "empty": [list(layer_norm(torch.empty(shape), None, None, None, 1e-5).shape) for shape in ((0, 1024), (1, 0, 10), (1, 0))],
                "rounding": rounding(),
            }
        )
    )
