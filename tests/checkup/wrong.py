"""Norms that are wrong in the ways that released kernels were, and one that is right."""

import os
import signal

import torch

import normbench


def unsupported(case, device):
    if case.residual or case.convention != "torch" or (case.norm == "rms_norm" and case.bias):
        return "plain norms only"
    return None


def provider(*norms):
    return lambda function: normbench.provider(function.__name__, norms=norms, supports=unsupported)(function)


def rms(x, weight, eps):
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight).to(x.dtype)


@provider("rms_norm")
def right(x, weight, bias, residual, eps):
    return rms(x, weight, eps)


@provider("layer_norm")
def one_pass(x, weight, bias, residual, eps):
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    y = (wide - mean) * torch.rsqrt(wide.square().mean(-1, keepdim=True) - mean.square() + eps)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).to(x.dtype)


class SumInSixteenBits(torch.autograd.Function):
    """Multiply by a weight whose gradient is summed row by row in the dtype of x."""

    @staticmethod
    def forward(ctx, xhat, weight, dtype):
        ctx.save_for_backward(xhat, weight)
        ctx.dtype = dtype
        return xhat * weight

    @staticmethod
    def backward(ctx, dy):
        xhat, weight = ctx.saved_tensors
        total = torch.zeros_like(weight, dtype=ctx.dtype)
        for row in (dy * xhat).reshape(-1, weight.numel()):
            total += row.to(ctx.dtype)
        return dy * weight, total.to(weight.dtype), None


@provider("rms_norm")
def sums_in_16_bits(x, weight, bias, residual, eps):
    y = rms(x.float(), None, eps)
    return (y if weight is None else SumInSixteenBits.apply(y, weight, x.dtype)).to(x.dtype)


@provider("rms_norm")
def eps_outside(x, weight, bias, residual, eps):
    wide = x.float()
    y = wide / (wide.square().mean(-1, keepdim=True).sqrt() + eps)
    return (y if weight is None else y * weight).to(x.dtype)


@provider("rms_norm")
def ignores_strides(x, weight, bias, residual, eps):
    return rms(torch.as_strided(x, (x.numel(),), (1,), x.storage_offset()).view(x.shape), weight, eps)


class DropStrides(torch.autograd.Function):
    """Return x, and read its upstream gradient as if that were contiguous."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        return torch.as_strided(dy, (dy.numel(),), (1,), dy.storage_offset()).view(dy.shape)


@provider("rms_norm")
def drops_dy_strides(x, weight, bias, residual, eps):
    return DropStrides.apply(rms(x, weight, eps))


@provider("rms_norm")
def no_weight_gradient(x, weight, bias, residual, eps):
    return rms(x, None if weight is None else weight.detach(), eps)


@provider("rms_norm")
def not_a_number(x, weight, bias, residual, eps):
    return rms(x, weight, eps) * float("nan")


@provider("rms_norm")
def crashes_beside_a_large_mean(x, weight, bias, residual, eps):
    if x.float().mean() > 1000:
        os.kill(os.getpid(), signal.SIGSEGV)
    return rms(x, weight, eps)
