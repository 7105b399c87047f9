"""`apply` and the modules with the provider triton."""

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounterWithBackend

from normbench import UsageError, apply, nn

from .inputs import same_bits


def randn(*shape, dtype=torch.float32, requires_grad=False):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype).requires_grad_(requires_grad)


@pytest.mark.parametrize("shape", [(8,), (4, 8), (3, 4, 8)], ids=str)
def test_a_norm_over_several_dimensions_and_its_gradients(shape):
    tensors = [randn(2, 3, 4, 8, requires_grad=True), randn(*shape, requires_grad=True), randn(*shape, requires_grad=True)]
    y, total = apply("layer_norm", *tensors, residual=torch.ones(2, 3, 4, 8), provider="triton")
    hidden = tensors[0] + 1
    torch.testing.assert_close(y, F.layer_norm(hidden, shape, *tensors[1:]))
    assert torch.equal(total, hidden)
    found = torch.autograd.grad(y.square().sum(), tensors)
    wanted = torch.autograd.grad(F.layer_norm(hidden, shape, *tensors[1:]).square().sum(), tensors)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a12_eps_is_by_default_that_of_pytorch(dtype):
    x = (randn(2, 4, 1, 32) * 0.058).to(dtype)
    torch.testing.assert_close(apply("rms_norm", x, provider="triton"), F.rms_norm(x, (32,)))


def test_a_weight_more_exact_than_the_computation_is_refused():
    with pytest.raises(UsageError, match="computes in float32 for bfloat16, which is not enough for a float64 weight"):
        apply("rms_norm", randn(4, 8).bfloat16(), randn(8).double(), provider="triton")


@pytest.mark.parametrize(
    ("module", "reference"),
    [
        (nn.LayerNorm(8, provider="triton"), torch.nn.LayerNorm(8)),
        (nn.LayerNorm((4, 8), bias=False, provider="triton"), torch.nn.LayerNorm((4, 8), bias=False)),
        (nn.LayerNorm(8, elementwise_affine=False, provider="triton"), torch.nn.LayerNorm(8, elementwise_affine=False)),
        (nn.RMSNorm(8, provider="triton"), torch.nn.RMSNorm(8)),
        (nn.RMSNorm((4, 8), convention="gemma", provider="triton"), torch.nn.RMSNorm((4, 8))),
    ],
    ids=str,
)
def test_a_module_computes_what_pytorchs_does(module, reference):
    x = randn(3, 4, 8, requires_grad=True)
    found, wanted = module(x), reference(x)
    torch.testing.assert_close(found, wanted)
    leaves = [x, *module.parameters()], [x, *reference.parameters()]
    gradients = [torch.autograd.grad(y.square().sum(), inputs) for y, inputs in zip((found, wanted), leaves, strict=True)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_a_compiled_module_serves_every_batch_with_one_graph():
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    module = nn.RMSNorm(8, eps=1e-6, provider="triton")
    compiled, counts = torch.compile(module, fullgraph=True, backend=counter), []
    for rows in (2, 3, 5, 7):
        x = randn(rows, 8, requires_grad=True)
        found = compiled(x)
        assert same_bits(found.detach(), module(x).detach())
        found.sum().backward()
        counts.append(counter.frame_count)
    # The second batch shows that the size changes; from then on it is open.
    assert counts[1] == counts[2] == counts[3]


def test_a_provider_on_the_meta_device_computes_shapes():
    module = nn.LayerNorm(8, device="meta", provider="triton")
    assert module(torch.empty(3, 8, device="meta")).shape == (3, 8)
