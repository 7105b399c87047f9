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
