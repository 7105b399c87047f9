"""What the instructions of a kernel say: ELF sections, resources, counts and a hash. Pure: from bytes and text to figures.

Names of instructions: CUDA Binary Utilities, section 4, https://docs.nvidia.com/cuda/cuda-binary-utilities/.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from ..errors import NormbenchError

__all__ = ["Counts", "Resources", "code_hash", "code_of", "count", "parse_resources", "split_listing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Hold what the assembler reserved: registers and stack bytes per thread, static shared memory per program."""

    registers: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Hold counts of instructions; loads and stores are of global memory, by width in bits."""

    instructions: int
    loads: Counter[int]
    stores: Counter[int]
    local_accesses: int
    bulk_copies: int
    atomics: int


def code_of(cubin: bytes) -> bytes:
    """Return the instructions of the one kernel in a cubin: the contents of its .text section (ELF-64, little endian).

    Debug information, line tables and names lie in other sections. Raises NormbenchError when there is no such section, or several.
    """
    if cubin[:5] != b"\x7fELF\x02":
        raise NormbenchError(f"{len(cubin)} bytes that begin with {cubin[:5]!r} are not a cubin")
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    entry_bytes, entries, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, offset + index * entry_bytes) for index in range(entries)]
    names_at = headers[names_index][4]
    found = [
        cubin[start : start + size] for name, _, _, _, start, size in headers if cubin[names_at + name : names_at + name + 6] == b".text."
    ]
    if len(found) != 1:
        raise NormbenchError(f"a cubin with {len(found)} kernels cannot be inspected; one was expected")
    return found[0]


def code_hash(code: bytes) -> str:
    """Return the SHA-256 of the instructions."""
    return sha256(code).hexdigest()


def parse_resources(text: str) -> Resources:
    """Read what `cuobjdump -res-usage` prints for one kernel. Raises NormbenchError when it prints something else."""
    found = re.findall(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)", text)
    if len(found) != 1:
        raise NormbenchError(f"cuobjdump -res-usage names {len(found)} kernels; one was expected: {text.strip()[:200]!r}")
    registers, stack, shared = map(int, found[0])
    return Resources(registers=registers, stack_bytes=stack, shared_bytes=shared)


def split_listing(listing: str, sizes: Sequence[int]) -> list[list[str]]:
    """Return the instructions of each of several codes that were disassembled one after the other, `sizes` bytes long."""
    parts: list[list[str]] = [[] for _ in sizes]
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    part = 0
    for match in re.finditer(r"/\*([0-9a-f]{4,})\*/\s+([^;]*?)\s*;", listing):
        offset = int(match[1], 16)
        while offset >= ends[part]:
            part += 1
        parts[part].append(match[2])
    return parts


_LOADS = {"LDG", "LD", "LDGSTS"}
_STORES = {"STG", "ST"}
_LOCAL = {"LDL", "STL"}
_ATOMICS = {"ATOM", "ATOMG", "RED", "REDG"}
_BULK = {"UBLKCP", "UBLKRED", "UTMALDG", "UTMASTG", "UTMAREDG"}
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}


def count(instructions: Sequence[str]) -> Counts:
    """Count the instructions of a kernel; the NOPs that pad it are none."""
    loads: Counter[int] = Counter()
    stores: Counter[int] = Counter()
    names: Counter[str] = Counter()
    for text in instructions:
        name, *modifiers = re.sub(r"^@!?U?P\w+\s+", "", text).split(maxsplit=1)[0].split(".")
        names[name] += 1
        if name in _LOADS | _STORES:
            bits = next((_WIDTHS[modifier] for modifier in modifiers if modifier in _WIDTHS), 32)
            (loads if name in _LOADS else stores)[bits] += 1
    return Counts(
        instructions=names.total() - names["NOP"],
        loads=loads,
        stores=stores,
        local_accesses=sum(names[name] for name in _LOCAL),
        bulk_copies=sum(names[name] for name in _BULK),
        atomics=sum(names[name] for name in _ATOMICS),
    )
