"""Text that Markdown shows as it is."""

from __future__ import annotations

from normbench.text.markdown import escape, laid_out, table


def test_escape_keeps_a_table_cell_whole():
    assert escape("a|b\n  `c` <d>\t_e_ my_kernel *f*") == r"a\|b \`c\` \<d\> \_e\_ my_kernel \*f\*"
    assert len(escape("x" * 1000)) == 400


def test_every_underscore_at_the_edge_of_a_word_is_escaped_and_none_within():
    assert escape("__init__ of _x and a__b.c_") == r"\_\_init\_\_ of \_x and a__b.c\_"


def test_a_table_escapes_every_cell_and_aligns_columns():
    assert table(["a|b", "n", "m"], [["[x]", "1", "2"]]) == [r"| a\|b | n | m |", "| --- | --: | --: |", r"| \[x\] | 1 | 2 |"]
    assert table(["a", "b", "c", "d"], [], align="lrl")[1] == "| --- | --: | --- | --- |"
    assert table(["a"], [["x" * 20]], limit=10)[2] == "| xxxxxxxxx… |"


def test_cells_that_are_markdown_already_are_laid_out_as_they_are():
    assert laid_out(["a"], [["**1**<br>2"]]) == ["| a |", "| --- |", "| **1**<br>2 |"]
