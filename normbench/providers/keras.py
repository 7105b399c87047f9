"""The provider `keras`: `keras.ops.layer_normalization` and `rms_normalization` on Keras's PyTorch backend.

On that backend Keras casts to float32, calls F.layer_norm or F.rms_norm, and casts back, so what is seen beside `aten` is the cost of
the casts and of Keras. Its other backends are left out for their size: tensorflow-cpu 2.21 unpacks to 1.3 GB, jaxlib 0.10 to 0.36 GB,
and neither yields gradients to torch.
"""

from __future__ import annotations

from torch import Tensor

from ..cases.case import Case, Convention, DType, Norm
from ..registry import provider
from .imports import import_before_fork

__all__ = ["keras", "keras_unsupported"]

# Keras reads which backend to use once, when it is first imported; the variable goes before the user's configuration file.
_keras = import_before_fork("keras", {"KERAS_BACKEND": "torch"})


def keras_unsupported(case: Case, device: str) -> str | None:
    """Return why Keras does not take the case, or None."""
    backend = _keras.config.backend()
    if backend != "torch":
        return f"keras was imported with its {backend} backend, which knows no torch tensors"
    if case.convention is not Convention.TORCH:
        return f"keras.ops.rms_normalization has no {case.convention.value} convention"
    if case.norm is Norm.RMS_NORM and case.bias:
        return "keras.ops.rms_normalization has no bias"
    if DType.FLOAT64 in (case.dtype, case.weight_dtype):
        return "keras computes in float32, which is not enough for float64"
    return None


@provider("keras", norms=["layer_norm"], supports=keras_unsupported)
def keras(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float) -> Tensor | tuple[Tensor, Tensor]:
    """Compute LayerNorm with keras.ops.layer_normalization."""
    hidden = x if residual is None else x + residual
    y = _keras.ops.layer_normalization(hidden, gamma=weight, beta=bias, axis=-1, epsilon=eps)
    return y if residual is None else (y, hidden)


@provider("keras", norms=["rms_norm"], supports=keras_unsupported)
def keras_rms(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float) -> Tensor | tuple[Tensor, Tensor]:
    """Compute RMSNorm with keras.ops.rms_normalization."""
    hidden = x if residual is None else x + residual
    y = _keras.ops.rms_normalization(hidden, scale=weight, axis=-1, epsilon=eps)
    return y if residual is None else (y, hidden)
