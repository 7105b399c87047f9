"""A page has the sentences first, the tables, how sure it is, and the command that gives it again."""

from __future__ import annotations

import struct

from normbench.studies.drift import DRIFT
from normbench.studies.page import markdown, write_page
from normbench.studies.study import Scale

from .running import observed

FOUND = observed(DRIFT, Scale(seeds=2))
WHERE = {"command": "normbench study drift", "machine": "a machine", "torch": "2.13.0"}


def test_page_begins_with_what_was_found_and_ends_with_how_it_was_made():
    text = markdown(DRIFT, DRIFT.says(FOUND), [0, 1], **WHERE)
    assert text.startswith("# drift: ")
    assert text.index("- Entries of 0.3") < text.index("How: ") < text.index("| entries")
    assert "2 seeds (0 to 1); torch 2.13.0; a machine" in text
    assert "`normbench study drift`" in text


def test_one_seed_says_that_there_is_no_interval():
    assert "One seed (0), so no interval" in markdown(DRIFT, DRIFT.says(FOUND), [0], **WHERE)


def test_page_and_picture_are_written_side_by_side(tmp_path):
    page = write_page(DRIFT, DRIFT.says(FOUND), FOUND, tmp_path / "new", **WHERE)
    assert page.read_text().count("](drift.png)") == 1
    width, _ = struct.unpack(">II", (tmp_path / "new" / "drift.png").read_bytes()[16:24])
    assert width == 1200
