"""What a provider really launches: its function run on CPU tensors while Triton's launcher writes down instead of launching.

So nothing can drift from what a user runs, and a user's own kernels come through the same door. The argument types, which sizes
divide by 16 and which equal 1, and all options are worked out by Triton's own code, as they are before a real launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import NormbenchError, UsageError

if TYPE_CHECKING:
    from ..cases.case import Case, DType
    from ..oracle.problem import Problem
    from ..registry import Provider

__all__ = ["Launch", "Tensor", "captured", "launches_of"]

CAPABILITY = 90
"""Compute capability that code sees while it is captured; what is launched is compiled for others afterwards."""

MULTIPROCESSORS = 132
"""Multiprocessors that code sees while it is captured: those of an H100 SXM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Hold what a budget needs to know of a tensor argument."""

    numel: int
    itemsize: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Hold one launch, ready to be compiled for any architecture, without the tensors it was made with.

    `source` is Triton's ASTSource: the kernel, its signature, compile-time arguments and what is known of the others. `options` are
    the keywords of the launch. `tensors` are the tensor arguments by name.
    """

    kernel: str
    source: Any
    options: dict[str, Any]
    grid: tuple[int, ...]
    tensors: dict[str, Tensor]

    @property
    def key(self) -> str:
        """Return what the machine code follows from, the architecture apart."""
        return f"{self.source.hash()}-{sorted(self.options.items())}"

    @property
    def constants(self) -> dict[str, str]:
        """Return the compile-time arguments that have a value, and the options of the launch."""
        names = self.source.fn.arg_names
        values = {names[path[0]]: value for path, value in self.source.constants.items() if len(path) == 1 and value is not None}
        return {name: str(value) for name, value in (values | self.options).items()}


class _Driver:
    """Stand in for the driver of a GPU that is not here."""

    def __init__(self) -> None:
        from triton.backends.compiler import GPUTarget

        self._target = GPUTarget("cuda", CAPABILITY, 32)
        self.utils = self

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"multiprocessor_count": MULTIPROCESSORS, "max_shared_mem": 227 * 1024, "max_num_regs": 65536, "warpSize": 32}


@contextmanager
def captured() -> Iterator[list[Launch]]:
    """Write down every Triton launch of this process into the list yielded; nothing is compiled or computed meanwhile.

    Of an autotuned kernel every configuration counts as launched that is left after its own pruning. What is replaced in Triton is put
    back at the end.
    """
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    launches: list[Launch] = []

    def record(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> None:
        launches.append(_launch(kernel, arguments, grid, keywords))

    def run_every_configuration(tuner: Any, *arguments: Any, **keywords: Any) -> None:
        tuner.nargs = dict(zip(tuner.arg_names, arguments, strict=False))
        for configuration in tuner.prune_configs(keywords):
            chosen = configuration.all_kwargs()
            if configuration.pre_hook is not None:
                # It may set the block shape of a descriptor, which the machine code depends on.
                configuration.pre_hook({**tuner.nargs, **keywords, **chosen})
            tuner.fn.run(*arguments, **keywords, **chosen)
        tuner.nargs = None

    kept = JITFunction.run, Autotuner.run, driver._active
    JITFunction.run, Autotuner.run = record, run_every_configuration
    # Asking for the active driver would look for a GPU.
    driver.set_active(_Driver())
    try:
        yield launches
    finally:
        JITFunction.run, Autotuner.run, driver._active = kept


def _launch(kernel: Any, arguments: tuple[Any, ...], grid: Any, keywords: dict[str, Any]) -> Launch:
    """Turn a call of JITFunction.run into a Launch by the same steps that it takes itself."""
    keywords["debug"] = keywords.get("debug", kernel.debug) or False
    _, _, _, backend, bind = kernel.create_binder()
    bound, specialization, options = bind(*arguments, **keywords)
    _, signature, constants, attributes = kernel._pack_args(backend, keywords, bound, specialization, options)
    if callable(grid):
        grid = grid(bound)
    return Launch(
        kernel=kernel.fn.__name__,
        source=kernel.ASTSource(kernel, signature, constants, attributes),
        options={name: value for name, value in options.items() if value is not None and (name, value) != ("debug", False)},
        grid=tuple(int(size) for size in grid),
        tensors={
            name: Tensor(numel=value.numel(), itemsize=value.element_size())
            for name, value in bound.items()
            if hasattr(value, "element_size")
        },
    )


def _unfilled(case: Case) -> Problem:
    """Return the tensors of a case with whatever the memory holds: nobody reads them, and drawing 131072 columns takes seconds."""
    import torch

    from ..oracle.problem import Problem, torch_dtype

    def tensor(*shape: int, dtype: DType | None, wanted: bool = True, is_leaf: bool = True) -> torch.Tensor | None:
        if dtype is None or not wanted:
            return None
        return torch.empty(shape, dtype=torch_dtype(dtype)).requires_grad_(is_leaf and case.pass_.has_backward)

    x = tensor(*case.shape, dtype=case.dtype)
    assert x is not None
    return Problem(
        case=case,
        device=x.device,
        x=x,
        weight=tensor(case.cols, dtype=case.weight_dtype),
        bias=tensor(case.cols, dtype=case.weight_dtype, wanted=case.bias),
        residual=tensor(*case.shape, dtype=case.dtype, wanted=case.residual),
        dy=tensor(*case.shape, dtype=case.dtype, wanted=case.pass_.has_backward, is_leaf=False),
        dresidual_out=tensor(*case.shape, dtype=case.dtype, wanted=case.residual and case.pass_.has_backward, is_leaf=False),
    )


def launches_of(provider: Provider, case: Case) -> list[Launch]:
    """Return the distinct launches of one case: forward, and all gradients where the pass has them.

    Raises UsageError when the provider launches no Triton kernel or cannot be run on CPU tensors.
    """
    import torch
    import triton

    from ..workloads.op import outputs_of

    if triton.knobs.runtime.interpret:
        raise UsageError("TRITON_INTERPRET is set, so that kernels are interpreted and never compiled: inspect without it")
    problem = _unfilled(case)
    # What is compiled by PyTorch becomes C++ for CPU tensors; run as written, kernels inside it are still seen.
    with torch.compiler.set_stance("force_eager"), torch.set_grad_enabled(case.pass_.has_backward), captured() as launches:
        try:
            outputs_of(problem, provider.prepare(case))
        except NormbenchError:
            raise
        except Exception as error:
            raise UsageError(
                f"provider {provider.name!r} cannot be inspected: on CPU tensors {case.id} ends with {type(error).__name__}: {error}"
            ) from error
    if not launches:
        raise UsageError(
            f"provider {provider.name!r} launches no Triton kernel for {case.id}: only kernels that a provider launches itself can be "
            "inspected (torch.compile makes C++ without a GPU)"
        )
    return list({launch.key: launch for launch in launches}.values())
