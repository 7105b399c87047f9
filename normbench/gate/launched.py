"""What an arm makes a GPU do, found out without one: the machine code and launch parameters of its Triton kernels, and what is between."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import NormbenchError
from ..inspection.capture import CAPABILITY, Launch, captured
from ..inspection.compilation import Job, compile_jobs

if TYPE_CHECKING:
    from ..cases.case import Case
    from .arms import Arm

__all__ = ["Kernel", "Work", "compute_capability", "work_of"]

_OWN_NAME = re.compile(r"_normbench_(base|head)_\d+")
"""What keeps the operators of both arms apart, and is no difference between them."""


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one launch: the hash of its machine code and all that it is launched with, of tensors dtype, shape and strides."""

    code_hash: str
    grid: tuple[int, ...]
    threads: int
    shared_bytes: int
    arguments: tuple[str, ...]


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what a call makes the device do: its launches in order, for one compute capability, and PyTorch's operators around them."""

    capability: int
    kernels: tuple[Kernel, ...]
    operators: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return what is the same where two of these are, in a clause."""
        kernels = f"{len(self.kernels)} Triton launch{'es' if len(self.kernels) > 1 else ''}"
        return f"{kernels} with the same machine code for sm_{self.capability} and the same parameters"


def compute_capability(device: str) -> int:
    """Return the compute capability of a CUDA device, 90 for 9.0, or that of an H100 where there is no GPU. Touches CUDA."""
    import torch

    if not torch.cuda.is_available():
        return CAPABILITY
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def work_of(arm: Arm, case: Case, capability: int) -> Work:
    """Return what a call of an arm makes a GPU of this compute capability do, forward and, where the pass has it, backward.

    The arm is called with CPU tensors while Triton's launcher writes down, and code that asks for the device sees an H100; what
    PyTorch would compile runs as it is written. Raises NormbenchError for an arm that cannot be called so, that launches no Triton
    kernel, or whose kernels do not compile.
    """
    import torch

    from ..oracle.problem import make_problem
    from ..workloads.op import outputs_of

    problem = make_problem(case, device="cpu", seed=0)
    with torch.compiler.set_stance("force_eager"), torch.set_grad_enabled(case.pass_.has_backward), captured() as launches:
        try:
            function = arm.prepare(case)
            with _arguments_noted() as arguments, _operators_noted() as operators:
                outputs_of(problem, function)
        except Exception as error:
            raise NormbenchError(f"{arm.label} cannot be called without a GPU: {type(error).__name__}: {error}") from error
    if not launches:
        raise NormbenchError(f"{arm.label} launches no Triton kernel itself")
    return Work(capability=capability, kernels=_compiled(launches, arguments, capability), operators=tuple(operators))


@contextmanager
def _arguments_noted() -> Iterator[list[tuple[str, ...]]]:
    """Write down what each launch is given, in order: a number that is no compile-time constant leaves no trace in machine code."""
    from triton.runtime.jit import JITFunction

    noted: list[tuple[str, ...]] = []
    launch = JITFunction.run

    def noting(kernel: Any, *arguments: Any, **keywords: Any) -> Any:
        given = [value for name, value in keywords.items() if name not in ("grid", "warmup")]
        noted.append(tuple(_described(value) for value in (*arguments, *given)))
        return launch(kernel, *arguments, **keywords)

    JITFunction.run = noting
    try:
        yield noted
    finally:
        JITFunction.run = launch


@contextmanager
def _operators_noted() -> Iterator[list[str]]:
    """Write down PyTorch's operators as they are called, with what they are given."""
    from torch.utils._python_dispatch import TorchDispatchMode

    noted: list[str] = []

    class Noting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
            given = [_described(value) for value in (*args, *(kwargs or {}).values())]
            noted.append(f"{_OWN_NAME.sub('', str(function))}({', '.join(given)})")
            return function(*args, **(kwargs or {}))

    with Noting():  # type: ignore[no-untyped-call]
        yield noted


def _described(value: Any) -> str:
    """Return a tensor's dtype, shape and strides; of anything else, its text."""
    if hasattr(value, "dtype") and hasattr(value, "stride"):
        return f"{value.dtype}{tuple(value.shape)}{tuple(value.stride())}"
    return repr(value)


def _compiled(launches: list[Launch], arguments: list[tuple[str, ...]], capability: int) -> tuple[Kernel, ...]:
    jobs = {launch.key: Job(launch=launch, capability=capability) for launch in launches}
    found = {key: compiled for part in compile_jobs(list(jobs.values()), workers=1) for (key, _), compiled in part.items()}
    kernels = []
    for launch, given in zip(launches, arguments, strict=True):
        compiled = found[launch.key]
        if compiled.figures is None:
            raise NormbenchError(f"{launch.kernel} does not compile for sm_{capability}: {compiled.error}")
        figures = compiled.figures
        kernels.append(
            Kernel(
                code_hash=figures.code_hash,
                grid=launch.grid,
                threads=figures.threads,
                shared_bytes=figures.shared_bytes,
                arguments=given,
            )
        )
    return tuple(kernels)
