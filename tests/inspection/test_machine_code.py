"""Figures come from what the tools print and from the sections of a cubin."""

import struct

import pytest

from normbench.errors import NormbenchError
from normbench.inspection.machine_code import code_hash, code_of, count, parse_resources, split_listing


def cubin(sections):
    """Return a little ELF file of named sections, laid out as the format says: header, contents, names, table."""
    names, contents = b"\0.shstrtab\0", b""
    rows = [(0, 0, 0)]
    for name, content in sections:
        rows.append((len(names), 64 + len(contents), len(content)))
        names += name.encode() + b"\0"
        contents += content
    rows.append((1, 64 + len(contents), len(names)))
    table = b"".join(struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, start, size, 0, 0, 1, 0) for name, start, size in rows)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        2,
        190,
        1,
        0,
        0,
        64 + len(contents) + len(names),
        0,
        64,
        0,
        0,
        64,
        len(rows),
        len(rows) - 1,
    )
    return head + contents + names + table


def test_the_code_is_the_text_of_the_kernel_alone():
    made = cubin([(".debug_line", b"/home/someone/kernel.py"), (".text.kernel", b"\x01" * 32), (".nv.constant0.kernel", b"\0" * 8)])
    assert code_of(made) == b"\x01" * 32


def test_paths_and_names_do_not_enter_the_hash():
    one = cubin([(".debug_line", b"/home/someone/kernel.py"), (".text.kernel", b"\x01" * 32)])
    other = cubin([(".text.renamed", b"\x01" * 32), (".debug_line", b"/srv/kernel.py")])
    assert code_hash(code_of(one)) == code_hash(code_of(other))
    assert code_hash(code_of(cubin([(".text.kernel", b"\x02" * 32)]))) != code_hash(code_of(one))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (b"PK\x03\x04", "not a cubin"),
        (cubin([(".data", b"\0")]), "0 kernels"),
        (cubin([(".text.a", b"\0"), (".text.b", b"\0")]), "2 kernels"),
    ],
)
def test_what_holds_no_single_kernel_is_refused(made, words):
    with pytest.raises(NormbenchError, match=words):
        code_of(made)


def test_resources_are_read():
    # As cuobjdump 12.9 prints them.
    text = """
Resource usage:
 Common:
  GLOBAL:11 CONSTANT[4]:8
 Function forward_one_pass:
  REG:37 STACK:352 SHARED:1024 LOCAL:0 CONSTANT[0]:608 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
    found = parse_resources(text)
    assert (found.registers, found.stack_bytes, found.shared_bytes) == (37, 352, 1024)


def test_resources_of_nothing_are_refused():
    with pytest.raises(NormbenchError, match="0 kernels"):
        parse_resources("Resource usage:\n")


LISTING = """\
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/               @P0 LDG.E.128 R36, desc[UR6][R20.64] ;
.L_x_0:
        /*0020*/                   EXIT ;
        /*0030*/                   NOP;
"""


def test_a_listing_is_split_where_one_kernel_ends():
    assert split_listing(LISTING, [32, 32]) == [["LDC R1, c[0x0][0x28]", "@P0 LDG.E.128 R36, desc[UR6][R20.64]"], ["EXIT", "NOP"]]


# As nvdisasm prints them for sm_80, sm_90 and sm_100; a width that is not named is 32 bits.
@pytest.mark.parametrize(
    ("instruction", "loads", "stores"),
    [
        ("LDG.E.128 R4, [R2.64]", {128: 1}, {}),
        ("@!P2 LDG.E.64.CONSTANT R4, desc[UR4][R2.64]", {64: 1}, {}),
        ("@P1 LDG.E.EF.U16 R4, desc[UR4][R2.64]", {16: 1}, {}),
        ("LDG.E.ENL2.256 R12, R8, desc[UR4][R2.64]", {256: 1}, {}),
        ("LDG.E R4, desc[UR4][R2.64+0x80]", {32: 1}, {}),
        ("LDGSTS.E.BYPASS.128 [R3], desc[UR4][R2.64], P0", {128: 1}, {}),
        ("@UP0 STG.E.U8 desc[UR4][R2.64], R5", {}, {8: 1}),
        ("STG.E.128 desc[UR4][R2.64], R4", {}, {128: 1}),
        ("LDS.128 R4, [R2]", {}, {}),
    ],
)
def test_global_accesses_are_counted_by_width(instruction, loads, stores):
    found = count([instruction])
    assert (dict(found.loads), dict(found.stores)) == (loads, stores)


def test_kinds_of_instructions_are_told_apart():
    found = count(
        ["LDL R4, [R1+0x10]", "STL.128 [R1], R8", "UTMALDG.2D [UR8], [UR4]", "REDG.E.ADD.F32 desc[UR4][R2.64], R4", "EXIT", "NOP"]
    )
    assert (found.local_accesses, found.bulk_copies, found.atomics, found.instructions) == (2, 1, 1, 5)
