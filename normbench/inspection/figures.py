"""What is known of a compiled kernel, and the file of it that `normbench inspect --json` prints. Pure."""

from __future__ import annotations

import msgspec

from ..errors import UsageError

__all__ = ["SCHEMA_VERSION", "VECTOR_BITS", "Argument", "Figures", "Inspection", "Skipped", "Variant", "decode", "share_of_vectors"]

SCHEMA_VERSION = 1
"""Raised when an old reader would misread a new file; additive fields have defaults instead."""

VECTOR_BITS = 128
"""Width of a full access: 16 bytes a thread, which makes 512 contiguous bytes of a warp."""


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """Hold how the code reads and writes one tensor argument: numbers of instructions by width in bits, from PTX.

    `numel` and `itemsize` are those of the tensor it was launched with; None for an access that could not be traced to an argument.
    """

    name: str
    numel: int | None
    itemsize: int | None
    loads: dict[int, int]
    stores: dict[int, int]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the figures of one kernel's machine code.

    Registers and stack are per thread, shared memory per program, static and dynamic together. `loads` and `stores` count
    instructions on global memory by width in bits, `bulk_copies` those that hand a whole tile to the copy engine, `atomics` those
    that read and write at once. Spilling shows as stack and as `local_accesses`. `code_hash` is of the instructions alone: paths,
    line numbers and symbol names do not enter.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    threads: int
    loads: dict[int, int]
    stores: dict[int, int]
    local_accesses: int
    bulk_copies: int
    atomics: int
    instructions: int
    code_hash: str
    arguments: tuple[Argument, ...]


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one kernel that a provider launches for a case, compiled for one architecture; `error` says why it could not be.

    `launch` tells apart the variants of one kernel in one case, 0 the first; `constants` are its compile-time arguments and options.
    `grid` is what was launched without a device: a kernel that asks how many multiprocessors there are launches more on one.
    """

    provider: str
    kernel: str
    case: str
    norm: str
    pass_: str = msgspec.field(name="pass")
    dtype: str
    rows: int
    cols: int
    arch: str
    launch: int
    grid: tuple[int, ...]
    constants: dict[str, str]
    figures: Figures | None
    error: str | None = None
    convention: str = "torch"

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """Return what stays the same from one version of the code to the next."""
        return (self.provider, self.case, self.arch, self.kernel, self.launch)


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a case that a provider does not take, and why."""

    provider: str
    case: str
    reason: str


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """Hold all variants of one inspection and the versions of what compiled them."""

    schema_version: int = SCHEMA_VERSION
    versions: dict[str, str]
    variants: tuple[Variant, ...]
    skipped: tuple[Skipped, ...] = ()


def share_of_vectors(counts: dict[int, int]) -> float | None:
    """Return the share of accesses that are at least 128 bits wide; None where there are none."""
    total = sum(counts.values())
    return sum(count for bits, count in counts.items() if bits >= VECTOR_BITS) / total if total else None


def decode(text: bytes | str, origin: str) -> Inspection:
    """Read what `normbench inspect --json` printed. Raises UsageError naming `origin` when it is something else."""
    try:
        version = msgspec.json.decode(text, type=_Versioned).schema_version
        if version != SCHEMA_VERSION:
            raise UsageError(f"{origin} has schema version {version}, this normbench reads {SCHEMA_VERSION}: inspect again with this one")
        return msgspec.json.decode(text, type=Inspection)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{origin} is not what `normbench inspect --json` prints: {error}") from None


class _Versioned(msgspec.Struct):
    schema_version: int
