"""The provider `onnxruntime`: ONNX Runtime's own norm operators, each in a model of one node that is built in memory for the case.

layer_norm is LayerNormalization (ONNX operator set 17), rms_norm SimplifiedLayerNormalization, which ONNX Runtime also runs where a
model has RMSNormalization (operator set 23); with a residual they are SkipLayerNormalization and SkipSimplifiedLayerNormalization
of its domain com.microsoft, which normalise the sum in float32 and round only the copy of it that they return. On a CPU the latter
two add a row up in order, so that their float32 error grows with its width: from some 4096 columns on a check may tell them wrong.
Inputs and outputs are bound where they lie in memory: nothing is copied. Weight and bias are inputs, too, and not the constants that
they are in most models.
"""

from __future__ import annotations

from typing import Any

import torch
from onnx import TensorProto, helper
from torch import Tensor

from ..cases.case import Case, Convention, DType, Norm
from ..cases.definition import Definition
from ..registry import NormFunction, provider

__all__ = ["make_model", "onnxruntime", "onnxruntime_definition", "onnxruntime_unsupported"]

_ELEMENT_TYPES = {
    DType.FLOAT64: TensorProto.DOUBLE,
    DType.FLOAT32: TensorProto.FLOAT,
    DType.BFLOAT16: TensorProto.BFLOAT16,
    DType.FLOAT16: TensorProto.FLOAT16,
}
_OPERATORS = {
    (Norm.LAYER_NORM, False): ("LayerNormalization", ""),
    (Norm.LAYER_NORM, True): ("SkipLayerNormalization", "com.microsoft"),
    (Norm.RMS_NORM, False): ("SimplifiedLayerNormalization", ""),
    (Norm.RMS_NORM, True): ("SkipSimplifiedLayerNormalization", "com.microsoft"),
}
# Threads that spin for more work would take the cores from whoever is timed next.
_SETTINGS = {"session.intra_op.allow_spinning": "0"}
_OPERATOR_SET = 17
_IR_VERSION = 10
"""Of ONNX 1.16: what is written here needs no newer one, and an older ONNX Runtime refuses a newer one."""


def onnxruntime_unsupported(case: Case, device: str) -> str | None:
    """Return why ONNX Runtime does not compute the case, or None."""
    operator, _ = _OPERATORS[case.norm, case.residual]
    if case.pass_.has_backward:
        return "forward only: a session of ONNX Runtime computes no gradients"
    if case.norm is Norm.RMS_NORM and case.bias:
        return f"{operator} has no bias after the norm"
    if case.weight_dtype is None:
        return f"{operator} always has a weight"
    if case.weight_dtype is not case.dtype:
        return f"{operator} takes a weight of its input's dtype only; here {case.weight_dtype.value} beside {case.dtype.value}"
    if case.convention is not Convention.TORCH:
        return f"{operator} multiplies by the weight in float32 and rounds once; it has no {case.convention.value} convention"
    if case.dtype is DType.FLOAT64:
        return f"{operator} {'takes no float64' if case.residual else 'keeps eps in float32, which is not enough for float64'}"
    if case.is_empty:
        return "ONNX Runtime binds no output without elements"
    return _device_unsupported(device)


def _device_unsupported(device: str) -> str | None:
    if device == "cpu":
        return None
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        return None
    return "the onnxruntime that is installed is built for CPUs: pip install 'normbench[onnxruntime-gpu]' in its place"


def onnxruntime_definition(case: Case) -> Definition:
    """Return which formula is computed: with a residual of 16 bits, the norm of the sum that was not rounded yet."""
    return Definition.UNROUNDED_SUM if case.residual and case.dtype.itemsize == 2 else Definition.FORMULA


def make_model(case: Case) -> bytes:
    """Return the serialised model: inputs x, weight and as the case has them residual and bias, outputs y and residual_out."""
    operator, domain = _OPERATORS[case.norm, case.residual]
    element = _ELEMENT_TYPES[case.dtype]
    rows = [case.rows, case.cols]
    inputs = ["x", *(["residual"] if case.residual else []), "weight", *(["bias"] if case.bias else [])]
    # The outputs between are mean and reciprocal deviation, which nobody asks for.
    outputs = ["y", "", "", "residual_out"] if case.residual else ["y"]
    attributes: dict[str, Any] = {"epsilon": case.eps} if case.residual else {"epsilon": case.eps, "axis": -1}
    node = helper.make_node(operator, inputs, outputs, domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        case.norm_label,
        [helper.make_tensor_value_info(name, element, rows if name in ("x", "residual") else [case.cols]) for name in inputs],
        [helper.make_tensor_value_info(name, element, rows) for name in outputs if name],
    )
    sets = [helper.make_opsetid("", _OPERATOR_SET), helper.make_opsetid("com.microsoft", 1)]
    model: bytes = helper.make_model(graph, opset_imports=sets, ir_version=_IR_VERSION).SerializeToString()
    return model


def _session(case: Case, device: torch.device) -> Any:
    # Imported here: it starts a thread, and this module is loaded in a process that will be forked.
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    # What it would print comes as an exception, too.
    options.log_severity_level = 4
    for key, value in _SETTINGS.items():
        options.add_session_config_entry(key, value)
    providers: list[Any] = ["CPUExecutionProvider"]
    if device.type == "cuda":
        stream = torch.cuda.current_stream(device).cuda_stream
        providers = [("CUDAExecutionProvider", {"device_id": str(device.index or 0), "user_compute_stream": str(stream)})]
    return onnxruntime.InferenceSession(make_model(case), options, providers=providers)


@provider(
    "onnxruntime",
    norms=["layer_norm", "rms_norm"],
    per_case=True,
    supports=onnxruntime_unsupported,
    settings=_SETTINGS,
    definition=onnxruntime_definition,
)
def onnxruntime(case: Case) -> NormFunction:
    """Compute the case in a session of its own, opened by the first call with as many threads as PyTorch has."""
    element = _ELEMENT_TYPES[case.dtype]
    rows = (case.rows, case.cols)
    binding: Any = None
    session: Any = None

    def function(
        x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
    ) -> Tensor | tuple[Tensor, Tensor]:
        nonlocal binding, session
        if session is None:
            session = _session(case, x.device)
            binding = session.io_binding()
        kind, index = x.device.type, x.device.index or 0
        given = {"x": x, "residual": residual, "weight": weight, "bias": bias}
        # A binding is an address, so what it points to is held until the call is over.
        held = {name: tensor.contiguous() for name, tensor in given.items() if tensor is not None}
        for name, tensor in held.items():
            shape = rows if name in ("x", "residual") else (case.cols,)
            binding.bind_input(name, kind, index, element, shape, tensor.data_ptr())
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        binding.bind_output("y", kind, index, element, rows, y.data_ptr())
        if residual is None:
            session.run_with_iobinding(binding)
            return y
        residual_out = torch.empty_like(y)
        binding.bind_output("residual_out", kind, index, element, rows, residual_out.data_ptr())
        session.run_with_iobinding(binding)
        return y, residual_out

    return function
