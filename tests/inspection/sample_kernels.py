"""Providers as a user writes them in a file of their own: one in good order, others each with one fault or one feature of Triton."""

import torch
import triton
import triton.language as tl

import normbench


@triton.jit
def scale_rows(x_ptr, weight_ptr, y_ptr, N, x_stride, eps, BLOCK: tl.constexpr):
    """Normalise one row of at most BLOCK columns."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    mask = col < N
    x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x) / N + eps) * tl.load(weight_ptr + col, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * N + col, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def scale_gradient(dy_ptr, weight_ptr, dx_ptr, N, BLOCK: tl.constexpr):
    """Write a gradient of the right shape."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    mask = col < N
    dy = tl.load(dy_ptr + row * N + col, mask=mask, other=0.0).to(tl.float32)
    dx = dy * tl.load(weight_ptr + col, mask=mask, other=0.0).to(tl.float32)
    tl.store(dx_ptr + row * N + col, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["x_stride"])
def scale_rows_anyhow(x_ptr, weight_ptr, y_ptr, N, x_stride, eps, BLOCK: tl.constexpr):
    """Do as scale_rows does, without knowing what the stride of x divides by."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    mask = col < N
    x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x) / N + eps) * tl.load(weight_ptr + col, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * N + col, y.to(y_ptr.dtype.element_ty), mask=mask)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        ctx.save_for_backward(weight)
        return launch(scale_rows, x, weight, eps)

    @staticmethod
    def backward(ctx, dy):
        (weight,) = ctx.saved_tensors
        dx = torch.empty_like(dy)
        scale_gradient[(dy.shape[0],)](dy, weight, dx, dy.shape[1], BLOCK=triton.next_power_of_2(dy.shape[1]))
        return dx, torch.zeros_like(weight), None


def launch(kernel, x, weight, eps, **options):
    """Launch a kernel on rows of x, four warps for each."""
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, weight, y, x.shape[1], x.stride(0), eps, BLOCK=triton.next_power_of_2(x.shape[1]), **options)
    return y


@normbench.provider("sound", norms=["rms_norm"])
def sound(x, weight, bias, residual, eps):
    return _Scaled.apply(x, weight, eps)


@normbench.provider("spilling", norms=["rms_norm"])
def spilling(x, weight, bias, residual, eps):
    # 4096 columns on 128 threads are 32 float32 values a thread; 24 registers do not hold them.
    return launch(scale_rows, x, weight, eps, maxnreg=24)


@normbench.provider("narrow", norms=["rms_norm"])
def narrow(x, weight, bias, residual, eps):
    return launch(scale_rows_anyhow, x, weight, eps)


@triton.autotune(configs=[triton.Config({"BLOCK": 1024}, num_warps=warps) for warps in (2, 4)], key=["N"])
@triton.jit
def tuned_rows(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    tl.store(y_ptr + row * N + col, tl.load(x_ptr + row * N + col, mask=col < N), mask=col < N)


@triton.heuristics({"BLOCK": lambda arguments: triton.next_power_of_2(arguments["N"])})
@triton.jit
def guessed_rows(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    tl.store(y_ptr + row * N + col, tl.load(x_ptr + row * N + col, mask=col < N), mask=col < N)


@normbench.provider("tuned", norms=["rms_norm"])
def tuned(x, weight, bias, residual, eps):
    y = torch.empty_like(x)
    tuned_rows[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.shape[1])
    return y


@normbench.provider("guessed", norms=["rms_norm"])
def guessed(x, weight, bias, residual, eps):
    y = torch.empty_like(x)
    guessed_rows[(x.shape[0],)](x, y, x.shape[1])
    return y


@triton.jit
def impossible_rows(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK < 0, "no block is that small")


@normbench.provider("impossible", norms=["rms_norm"])
def impossible(x, weight, bias, residual, eps):
    y = torch.empty_like(x)
    impossible_rows[(x.shape[0],)](x, y, x.shape[1], BLOCK=64)
    return y


@normbench.provider("choosy", norms=["rms_norm"], supports=lambda case, device: "wants 64 columns" if case.cols != 64 else None)
def choosy(x, weight, bias, residual, eps):
    return launch(scale_rows, x, weight, eps)


@normbench.provider("launchless", norms=["rms_norm"])
def launchless(x, weight, bias, residual, eps):
    return x * weight


@normbench.provider("failing", norms=["rms_norm"])
def failing(x, weight, bias, residual, eps):
    raise RuntimeError("there is no GPU here")
