"""Launches compiled for GPUs that are not here, in several processes, and their machine code turned into figures."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import signal
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import msgspec

from ..cases.case import Case
from ..errors import NormbenchError
from ..measure.worker import die_with
from .capture import Launch, Tensor
from .disassembly import disassemble, resources_of
from .figures import Argument, Figures, Variant
from .machine_code import Resources, code_hash, code_of, count
from .ptx import parameters, trace_accesses

__all__ = ["Compiled", "Job", "compile_jobs", "variant_of"]

CHUNK = 8
"""Kernels that a process compiles before it reports: about 5 s, and the start of nvdisasm costs each of them 0.03 s."""

WARP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Ask for a launch to be compiled for a compute capability such as 90."""

    launch: Launch
    capability: int

    @property
    def key(self) -> tuple[str, int]:
        return self.launch.key, self.capability


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Hold the figures of a compiled launch, or why it could not be compiled; `figures` is None then.

    Its arguments have names but no sizes, because launches of several sizes share one machine code.
    """

    figures: Figures | None
    error: str | None = None

    def figures_with(self, tensors: Mapping[str, Tensor]) -> Figures | None:
        """Return the figures with the sizes of the tensors of one launch filled in."""
        if self.figures is None:
            return None
        arguments = []
        for argument in self.figures.arguments:
            tensor = tensors.get(argument.name)
            if tensor is not None:
                argument = msgspec.structs.replace(argument, numel=tensor.numel, itemsize=tensor.itemsize)
            arguments.append(argument)
        return msgspec.structs.replace(self.figures, arguments=tuple(arguments))


def variant_of(case: Case, launch: Launch, compiled: Compiled, *, provider: str, arch: str, ordinal: int = 0) -> Variant:
    """Return what a provider launches for a case, as it was compiled for one architecture."""
    return Variant(
        provider=provider,
        kernel=launch.kernel,
        case=case.id,
        norm=case.norm_label,
        convention=case.convention.value,
        pass_=case.pass_.value,
        dtype=case.dtype.value,
        rows=case.rows,
        cols=case.cols,
        arch=arch,
        launch=ordinal,
        grid=launch.grid,
        constants=launch.constants,
        figures=compiled.figures_with(launch.tensors),
        error=compiled.error,
    )


# What a forked process is to compile: Triton's kernels refer to modules and cannot be sent.
_chunks_to_do: Sequence[Sequence[Job]] = ()


def compile_jobs(jobs: Sequence[Job], *, workers: int) -> Iterator[dict[tuple[str, int], Compiled]]:
    """Compile every job in `workers` processes and yield what is done, by the key of its job, as it comes.

    Triton keeps what it has compiled on disk (`~/.triton/cache`), so that a second inspection of the same code takes no compiler.
    """
    if not jobs:
        return
    # What Triton loads and hashes when it first compiles takes 3 s, and every process forked afterwards has it.
    yield _compile_chunk(jobs[:1])
    chunks = list(_chunks(jobs[1:]))
    if workers == 1:
        yield from map(_compile_chunk, chunks)
    elif chunks:
        yield from _compile_in_processes(chunks, workers)


def _chunks(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Split jobs into chunks of one capability each: a disassembler reads one."""
    for capability in sorted({job.capability for job in jobs}):
        alike = [job for job in jobs if job.capability == capability]
        for start in range(0, len(alike), CHUNK):
            yield alike[start : start + CHUNK]


def _compile_in_processes(chunks: Sequence[Sequence[Job]], workers: int) -> Iterator[dict[tuple[str, int], Compiled]]:
    global _chunks_to_do
    _chunks_to_do = chunks
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork"), initializer=_begin, initargs=(os.getpid(),))
    try:
        with warnings.catch_warnings():
            # Python 3.12 warns that a lock held by another thread stays held in a fork; these use none of what torch's threads do.
            warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
            futures = [pool.submit(_compile_numbered, number) for number in range(len(chunks))]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise NormbenchError("a compiling process died, most likely of a fault in the compiler or for want of memory") from error
    finally:
        pool.shutdown(cancel_futures=True)
        _chunks_to_do = ()


def _begin(parent: int) -> None:
    # Ctrl-C is for the process that waits; it ends these. Where it is killed itself they would wait for work for ever.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)


def _compile_numbered(number: int) -> dict[tuple[str, int], Compiled]:
    return _compile_chunk(_chunks_to_do[number])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assembled:
    """Hold what is left of a compiled kernel when it goes to the disassembler."""

    code: bytes
    resources: Resources
    shared_bytes: int
    threads: int
    arguments: tuple[Argument, ...]


def _compile_chunk(jobs: Sequence[Job]) -> dict[tuple[str, int], Compiled]:
    """Compile jobs of one capability, and disassemble all of them at once."""
    assembled: dict[tuple[str, int], _Assembled] = {}
    found: dict[tuple[str, int], Compiled] = {}
    for job in jobs:
        try:
            # On an error Triton prints the whole program to standard output.
            with contextlib.redirect_stdout(io.StringIO()):
                assembled[job.key] = _assemble(job)
        except Exception as error:
            found[job.key] = Compiled(figures=None, error=_reason(error))
    listings = disassemble([one.code for one in assembled.values()], jobs[0].capability)
    for (key, one), instructions in zip(assembled.items(), listings, strict=True):
        found[key] = Compiled(figures=_figures(one, instructions))
    return found


def _reason(error: BaseException) -> str:
    """Return where and why compiling failed in one line: Triton prints the whole function between the two, once for each call."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^")]
    kept = lines if len(lines) <= 4 else [lines[0], *lines[-3:]]
    return f"{type(error).__name__}: {' / '.join(kept)}"


def _assemble(job: Job) -> _Assembled:
    """Compile one launch as Triton's own launcher does."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import make_backend

    target = GPUTarget("cuda", job.capability, WARP)
    options = make_backend(target).parse_options(dict(job.launch.options))
    kernel = triton.compile(job.launch.source, target=target, options=options.__dict__)
    cubin = kernel.asm["cubin"]
    return _Assembled(
        code=code_of(cubin),
        resources=resources_of(cubin),
        shared_bytes=kernel.metadata.shared,
        # With specialised warps the compiler adds some to those asked for.
        threads=kernel.metadata.num_warps * WARP,
        arguments=_arguments(job.launch.source.signature, kernel.asm["ptx"]),
    )


def _figures(one: _Assembled, instructions: Sequence[str]) -> Figures:
    counts = count(instructions)
    return Figures(
        registers=one.resources.registers,
        stack_bytes=one.resources.stack_bytes,
        shared_bytes=one.resources.shared_bytes + one.shared_bytes,
        threads=one.threads,
        loads=dict(counts.loads),
        stores=dict(counts.stores),
        local_accesses=counts.local_accesses,
        bulk_copies=counts.bulk_copies,
        atomics=counts.atomics,
        instructions=counts.instructions,
        code_hash=code_hash(one.code),
        arguments=one.arguments,
    )


def _arguments(signature: Mapping[str, Any], ptx: str) -> tuple[Argument, ...]:
    """Return the tensor arguments with their accesses; what goes to several, or to none that is known, has a name that says so."""
    names = _names(signature, parameters(ptx))
    return tuple(
        Argument(
            name="|".join(names.get(position, f"parameter {position}") for position in sorted(origin)) or "unknown",
            numel=None,
            itemsize=None,
            loads=dict(accesses.loads),
            stores=dict(accesses.stores),
        )
        for origin, accesses in sorted(trace_accesses(ptx).items(), key=lambda item: sorted(item[0]))
    )


def _names(signature: Mapping[str, Any], is_pointer: Sequence[bool]) -> dict[int, str]:
    """Return the name of the argument at each position of the kernel, empty where they do not correspond one to one.

    A kernel has a parameter for each argument that is not known when it is compiled, and scratch buffers after them; a tensor
    descriptor has several.
    """
    leaves = [(name, kind) for name, kind in signature.items() if kind != "constexpr"]
    plain = all(isinstance(kind, str) and not kind.startswith("tensordesc") for _, kind in leaves)
    fits = len(leaves) <= len(is_pointer) and all(
        is_pointer[position] == str(kind).startswith("*") for position, (_, kind) in enumerate(leaves)
    )
    return {position: name for position, (name, _) in enumerate(leaves)} if plain and fits else {}
