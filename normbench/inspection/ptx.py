"""Which tensor argument a global access of a kernel goes to, and how wide it is, read from its PTX. Pure.

PTX still has the kernel's parameters and an unlimited number of registers, most of them written once, so that an address can be
followed back to the parameter it was made from. Machine code keeps the widths but not the names.
Instruction set: https://docs.nvidia.com/cuda/parallel-thread-execution/.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["ParameterAccesses", "parameters", "trace_accesses"]

_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)(\s+\.ptr\b)?[^,)]*?\s([$\w]+_param_(\d+))\b")
_REGISTER = re.compile(r"%[a-zA-Z_]+\d+")
_FROM_PARAMETER = re.compile(r"\[\s*[$\w]+_param_(\d+)\b")
_ACCESS = re.compile(r"^(?P<kind>ld|ldu|st|atom|red)(?:\.\w+)*?\.global\b")
_COPY_TO_SHARED = re.compile(r"^cp\.async\.(?:ca|cg)\.shared(?:::\w+)?\.global\b")
_WIDTH = re.compile(r"\.(?P<type>[bsuf]|bf|f16x|bf16x)(?P<bits>\d+)$")
_VECTOR = re.compile(r"\.v(\d)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterAccesses:
    """Hold the widths in bits of the loads and stores of one parameter; atomics count as both."""

    loads: Counter[int] = field(default_factory=Counter)
    stores: Counter[int] = field(default_factory=Counter)


def parameters(ptx: str) -> list[bool]:
    """Return for each parameter of the kernel whether it is a pointer."""
    return [bool(match[2]) for match in _PARAMETER.finditer(ptx.partition(".visible .entry")[2].partition("{")[0])]


def trace_accesses(ptx: str) -> dict[frozenset[int], ParameterAccesses]:
    """Return the global accesses by the positions of the pointer parameters that their address is made from.

    That is one parameter for most; several where a kernel chooses between pointers, none where the pointer itself was loaded.
    """
    pointers = {position for position, is_pointer in enumerate(parameters(ptx)) if is_pointer}
    made_from: defaultdict[str, set[str]] = defaultdict(set)
    read_from: defaultdict[str, set[int]] = defaultdict(set)
    accesses: list[tuple[str, int, str]] = []
    for opcode, operands in _instructions(ptx):
        if opcode.startswith("ld.param"):
            for parameter in _FROM_PARAMETER.findall(operands[1]):
                for register in _REGISTER.findall(operands[0]):
                    read_from[register].add(int(parameter))
        elif match := _ACCESS.match(opcode):
            address = operands[0] if match["kind"] in ("st", "red") else operands[1]
            accesses.append((match["kind"], _width(opcode), address))
        elif _COPY_TO_SHARED.match(opcode):
            accesses.append(("ld", int(operands[2], 0) * 8, operands[1]))
        elif not opcode.startswith(("ld.", "st.", "atom.", "red.")) and len(operands) > 1:
            sources = {register for operand in operands[1:] for register in _REGISTER.findall(operand)}
            for register in _REGISTER.findall(operands[0]):
                made_from[register] |= sources
    found: defaultdict[frozenset[int], ParameterAccesses] = defaultdict(ParameterAccesses)
    for kind, bits, address in accesses:
        origin = _origin(_REGISTER.findall(address), made_from, read_from) & pointers
        if kind in ("ld", "ldu", "atom", "red"):
            found[frozenset(origin)].loads[bits] += 1
        if kind in ("st", "atom", "red"):
            found[frozenset(origin)].stores[bits] += 1
    return dict(found)


def _instructions(ptx: str) -> Iterator[tuple[str, list[str]]]:
    """Yield opcode and operands of every instruction; comments, labels, guards and directives are left out."""
    for line in ptx.partition("{")[2].splitlines():
        for statement in line.partition("//")[0].split(";"):
            text = re.sub(r"^\s*(?:[{}]\s*)?(?:[$\w]+:)?\s*(?:@!?%\w+\s+)?", "", statement).strip()
            if text and not text.startswith("."):
                opcode, *rest = text.split(maxsplit=1)
                yield opcode, _operands(rest[0] if rest else "")


def _operands(text: str) -> list[str]:
    """Split at the commas that are outside braces and brackets."""
    return [operand.strip() for operand in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", text)]


def _width(opcode: str) -> int:
    match = _WIDTH.search(opcode)
    assert match, opcode
    lanes = _VECTOR.search(opcode)
    packed = 2 if match["type"].endswith("16x") else 1
    # f16x2 and bf16x2 are written with the number of halves behind the x.
    bits = 16 * int(match["bits"]) if packed == 2 else int(match["bits"])
    return bits * (int(lanes[1]) if lanes else 1)


def _origin(registers: list[str], made_from: dict[str, set[str]], read_from: dict[str, set[int]]) -> set[int]:
    """Return the positions of all parameters that a value in one of the registers can come from."""
    found: set[int] = set()
    seen: set[str] = set()
    left = set(registers)
    while left:
        seen |= left
        found.update(*(read_from.get(register, ()) for register in left))
        left = {source for register in left for source in made_from.get(register, ())} - seen
    return found
