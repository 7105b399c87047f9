"""Modules that are norms under other names, and others that only look like one."""

import torch
from torch import nn


class Gain(nn.Module):
    """LayerNorm by hand: bias before weight, names of its own, its eps in no attribute."""

    def __init__(self, width):
        super().__init__()
        self.beta, self.gamma = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.ones(width))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.beta + self.gamma * centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 3e-5)


class Quiet(nn.Module):
    """RMSNorm by hand that rounds like LLaMA's, and counts its calls."""

    def __init__(self, width, eps=2e-6):
        super().__init__()
        self.scale, self.epsilon, self.calls = nn.Parameter(torch.ones(width)), eps, []

    def forward(self, x):
        self.calls.append(x)
        wide = x.float()
        return self.scale * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)).to(x.dtype)


class Annotated(nn.Module):
    """The LayerNorm of a well-known tutorial: an unbiased deviation, and eps beside it."""

    def __init__(self, width):
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.b_2


class OutsideRMS(nn.Module):
    """RMSNorm with its eps outside the root."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-6) * self.weight


class PlusOneLayerNorm(nn.LayerNorm):
    """LayerNorm by 1 + weight."""

    def forward(self, x):
        return nn.functional.layer_norm(x, self.normalized_shape, self.weight + 1, self.bias, self.eps)


class SoftmaxNorm(nn.Module):
    """No norm in spite of its name."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x.softmax(-1) * self.weight


class GatedNorm(nn.RMSNorm):
    """A norm that wants two tensors."""

    def forward(self, x, gate):
        return super().forward(x) * gate


class Scale(nn.Module):
    """A gain for each column."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


class GuardedNorm(nn.Module):
    """RMSNorm with a guard against zero that is no eps in the root: rows of 0 stay 0."""

    def __init__(self, width, guard):
        super().__init__()
        self.gamma, self.guard = nn.Parameter(torch.ones(width)), guard

    def forward(self, x):
        return self.guard(x) * self.gamma


def clamped_length(least):
    """Return x / |x| * sqrt(width), as many write it: the length is at least `least`."""
    return lambda x: nn.functional.normalize(x, dim=-1, eps=least) * x.shape[-1] ** 0.5


def clamped_mean_square(least):
    return lambda x: x * x.square().mean(-1, keepdim=True).clamp(min=least).rsqrt()


def beside_the_root(eps):
    return lambda x: x / (x.square().mean(-1, keepdim=True).sqrt() + eps)


def zero_for_nan(x):
    return (x * x.square().mean(-1, keepdim=True).rsqrt()).nan_to_num(0.0)


class OptionallyGatedNorm(nn.RMSNorm):
    """A norm that may be given a second tensor, as Mamba's is."""

    def forward(self, x, gate=None):
        y = super().forward(x)
        return y if gate is None else y * gate


class Fused(nn.RMSNorm):
    """A norm that may add a residual first, as vLLM's does, and takes anything else."""

    def forward(self, x, *residual, **options):
        return super().forward(x + residual[0] if residual else x)


class ChannelsFirst(nn.LayerNorm):
    """LayerNorm that takes four dimensions for a picture."""

    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1) if x.ndim == 4 else super().forward(x)


class DroppingNorm(nn.LayerNorm):
    """LayerNorm with dropout behind it, in a part of its own."""

    def __init__(self, width):
        super().__init__(width)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(super().forward(x))


class WideNorm(nn.LayerNorm):
    """LayerNorm that stays in float32."""

    def forward(self, x):
        return nn.functional.layer_norm(x.float(), self.normalized_shape, self.weight.float(), self.bias.float(), self.eps)
