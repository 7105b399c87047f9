"""The Triton kernels on a device: what the interpreter and a compiler without a GPU cannot show."""

import pytest
import torch

import normbench
from normbench.cases.case import Case
from normbench.kernels.backward import norm_backward
from normbench.kernels.forward import norm_forward
from normbench.kernels.operator import backward_operator, forward_operator, norm
from normbench.oracle.check import check, describe_failure
from normbench.oracle.problem import make_problem
from normbench.registry import Registry
from normbench.workloads.op import outputs_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")]

DTYPES = ["float32", "bfloat16", "float16"]

# A head of attention and a width that is no power of two share a program; 1000 divides by 8 only; 5120 is padded; 16384 is the widest
# forward on chip and past the widest backward; 16385 is looped with nothing aligned; 72704 and 262144 are past 64 KiB a row.
SHAPES = [(4099, 64), (1031, 100), (517, 1000), (1024, 5120), (65, 16384), (9, 16385), (17, 72704), (8, 262144)]


def skip_without(bytes_needed):
    free, _ = torch.cuda.mem_get_info()
    if free < bytes_needed:
        pytest.skip(f"needs {bytes_needed / 2**30:.0f} GiB of free device memory; {free / 2**30:.0f} are there")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize(
    ("name", "convention", "residual"),
    [
        ("layer_norm", "torch", False),
        ("layer_norm", "torch", True),
        ("rms_norm", "torch", False),
        ("rms_norm", "torch", True),
        ("rms_norm", "llama", True),
        ("rms_norm", "gemma", False),
    ],
)
def test_outputs_and_gradients_agree_with_the_oracle(name, convention, residual, shape, dtype):
    case = Case.make(name, "forward_backward", shape, dtype, convention=convention, residual=residual)
    problem = make_problem(case, device="cuda", seed=0)
    accuracy = check(case, problem, {"triton": outputs_of(problem, Registry().resolve("triton").prepare(case))})["triton"]
    assert all(entry.passed for entry in accuracy), describe_failure(accuracy)


# A28: elements past 2**31, for float16 bytes past 2**33, and as many rows as 31 bits count: with a tile's less one they count no more.
@pytest.mark.parametrize(
    ("rows", "cols", "dtype"),
    [
        (524289, 4096, torch.bfloat16),
        (149910, 14336, torch.bfloat16),
        (1048641, 4096, torch.float16),
        (2**31 - 1, 1, torch.float16),
    ],
)
def test_the_last_row_of_a_large_tensor_is_what_it_is_alone(rows, cols, dtype):
    # mean and rstd are float32.
    skip_without(rows * (5 * cols * dtype.itemsize + 8))
    x = torch.zeros(rows, cols, device="cuda", dtype=dtype)
    x[-1] = torch.randn(cols, device="cuda", dtype=dtype)
    x.requires_grad_()
    weight = torch.randn(cols, device="cuda", dtype=dtype)
    alone = x.detach()[-1:].clone().requires_grad_()
    for name in ("layer_norm", "rms_norm"):
        y, y_alone = normbench.apply(name, x, weight), normbench.apply(name, alone, weight)
        assert torch.equal(y[-1:], y_alone)
        dy = torch.zeros_like(y)
        dy[-1] = torch.randn(cols, device="cuda", dtype=dtype)
        (dx,), (dx_alone,) = torch.autograd.grad(y, x, dy), torch.autograd.grad(y_alone, alone, dy[-1:])
        assert torch.equal(dx[-1:], dx_alone)


def test_a_hundred_backward_passes_give_the_same_bits():
    # A34: partial sums in a fixed order, no atomics.
    x = torch.randn(8192, 2048, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight, bias = (torch.randn(2048, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    dy = torch.randn_like(x)
    first = torch.autograd.grad(normbench.apply("layer_norm", x, weight, bias), (x, weight, bias), dy)
    for _ in range(100):
        again = torch.autograd.grad(normbench.apply("layer_norm", x, weight, bias), (x, weight, bias), dy)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_a_new_number_of_rows_compiles_nothing():
    def step(rows):
        x = torch.randn(rows, 1536, device="cuda", requires_grad=True)
        weight = torch.randn(1536, device="cuda", requires_grad=True)
        normbench.apply("layer_norm", x, weight, torch.randn_like(weight)).sum().backward()

    def compiled():
        return [len(kernel.device_caches[torch.cuda.current_device()][0]) for kernel in (norm_forward, norm_backward)]

    step(16)
    before = compiled()
    for rows in (1, 7, 32, 4097):
        step(rows)
    assert compiled() == before


def test_a_graph_replays_forward_and_backward():
    x = torch.randn(512, 4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    dy = torch.randn_like(x)

    def step():
        return torch.autograd.grad(norm(x, weight, None, None, 1e-6, name="rms_norm"), (x, weight), dy)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(captured, step(), strict=True))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_tensors_of_another_device_than_the_current_one():
    # A31
    x = torch.randn(64, 1024, device="cuda:1", requires_grad=True)
    weight = torch.randn(1024, device="cuda:1", requires_grad=True)
    with torch.cuda.device(0):
        y = normbench.apply("rms_norm", x, weight)
        gradients = torch.autograd.grad(y.sum(), (x, weight))
    assert {tensor.device for tensor in (y, *gradients)} == {torch.device("cuda:1")}
    wanted = torch.nn.functional.rms_norm(x, (1024,), weight)
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(gradients, torch.autograd.grad(wanted.sum(), (x, weight)))


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_operators_keep_the_rules_of_pytorch_on_the_device(name):
    x, residual, dy = (torch.randn(33, 100, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    weight = torch.randn(100, device="cuda", dtype=torch.bfloat16)
    inputs = (x.requires_grad_(), weight.requires_grad_(), None, residual.requires_grad_(), 1e-6, name, "torch")
    torch.library.opcheck(forward_operator, inputs)
    _, hidden, mean, rstd = (tensor.detach() for tensor in forward_operator(*inputs))
    torch.library.opcheck(backward_operator, (dy, dy, hidden, weight.detach(), mean, rstd, name, "torch", torch.bfloat16, None))


def test_under_autocast_and_compiled_it_gives_what_it_gives_without():
    x = torch.randn(128, 1024, device="cuda", dtype=torch.bfloat16)
    module = normbench.nn.RMSNorm(1024, eps=1e-6, device="cuda", provider="triton")
    plain = module(x)
    with torch.autocast("cuda", torch.bfloat16):
        assert torch.equal(module(x), plain)
    assert torch.equal(torch.compile(module, fullgraph=True)(x), plain)
