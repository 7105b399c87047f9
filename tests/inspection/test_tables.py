"""Rows of text: one for each distinct machine code."""

from normbench.inspection.budget import broken_budgets
from normbench.inspection.difference import compare
from normbench.inspection.tables import COLUMNS, breach_rows, change_rows, variant_rows

from .handmade import figures, inspection, variant


def test_variants_of_one_code_share_a_row():
    rows = variant_rows([variant(), variant(cols=768), variant(norm="add_rms_norm"), variant(figures=figures(code_hash="b" * 64))])
    assert [(row["cols"], row["norm"], row["code"]) for row in rows] == [
        ("1024 768", "rms_norm add_rms_norm", "a" * 10),
        ("1024", "rms_norm", "b" * 10),
    ]


def test_conventions_of_one_code_are_listed():
    (row,) = variant_rows([variant(), variant(convention="llama")])
    assert row["convention"] == "torch llama"


def test_one_code_on_two_architectures_is_two_rows():
    assert [row["arch"] for row in variant_rows([variant(), variant(arch="sm_80")])] == ["sm_90", "sm_80"]


def test_shares_name_what_they_are_of():
    (row,) = variant_rows([variant(figures=figures(loads={128: 3, 32: 1}, stores={}))])
    assert (row["loads 128"], row["stores 128"]) == ("75% of 4", "none")


def test_every_row_has_every_column():
    rows = variant_rows([variant(), variant(figures=None, error="PTXASError: no")])
    assert [list(row) for row in rows] == [list(COLUMNS), list(COLUMNS)]
    assert rows[1]["code"] == "PTXASError: no"


def test_breaches_of_one_kind_share_a_row():
    spilled = figures(stack_bytes=8)
    found = [breach for cols in (1024, 2048, 4096) for breach in broken_budgets(variant(case=f"case of {cols}", figures=spilled))]
    (row,) = breach_rows(found)
    assert (row["budget"], row["case"]) == ("spills", "case of 1024 and 2 more")


def test_changes_show_both_sides():
    after = inspection(variant(figures=figures(registers=40, code_hash="b" * 64)), variant(kernel="new"))
    rows = change_rows(compare(inspection(variant(), variant(kernel="old")), after))
    assert [(row["what"], row["kernel"], row["regs"], row["stack"]) for row in rows] == [
        ("changed", "forward", "32 → 40", "0"),
        ("appeared", "new", "32", "0"),
        ("disappeared", "old", "32", "0"),
    ]
