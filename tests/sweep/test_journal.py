"""Each entry is on disk as it comes; a folder is gone on with only where it holds the same sweep."""

from __future__ import annotations

import msgspec
import pytest

from normbench.errors import NormbenchError, UsageError
from normbench.records.record import Status
from normbench.sweep.entry import Check, Point, Verdict
from normbench.sweep.journal import JOURNALS
from normbench.sweep.limit import Limit

from .made import header, question

HEADER = header()
CHECK = Check(arm="a", status=Status.OK)
POINT = Point(arm="a", batch=1, verdict=Verdict.OUT_OF_MEMORY, reason="none left", tokens=64)


@pytest.fixture
def folder(tmp_path):
    with JOURNALS.open(tmp_path / "sweep", HEADER, resume=False) as journal:
        journal.append(CHECK)
        assert JOURNALS.read(tmp_path / "sweep") == (HEADER, (CHECK,)), "before the next one"
        journal.append(POINT)
    return tmp_path / "sweep"


def test_what_was_appended_is_read_again(folder):
    assert JOURNALS.read(folder) == (HEADER, (CHECK, POINT))


def test_folder_with_entries_is_gone_on_with_only_when_asked(folder):
    with pytest.raises(UsageError, match="holds a sweep of 2 entries: go on with it by --resume"):
        JOURNALS.open(folder, HEADER, resume=False)
    with JOURNALS.open(folder, HEADER, resume=True) as journal:
        assert journal.entries == [CHECK, POINT]


def test_limit_that_was_chosen_first_holds_when_gone_on_with(folder):
    now = msgspec.structs.replace(HEADER, limit=Limit(limit_bytes=1, words="less is available now"), command=("other",))
    with JOURNALS.open(folder, now, resume=True) as journal:
        assert journal.header == HEADER


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (header(question(most=8)), "another most, 65536, not 8"),
        (header(question(norms=("rms_norm",))), "another cases"),
        (msgspec.structs.replace(HEADER, torch="2.14.0"), "made with torch 2.13.0, and this is 2.14.0"),
        (msgspec.structs.replace(HEADER, machine="another"), "made with machine a machine"),
    ],
)
def test_another_sweep_is_refused(folder, other, why):
    with pytest.raises(UsageError, match=why):
        JOURNALS.open(folder, other, resume=True)


def test_line_cut_short_by_a_crash_is_dropped_and_the_next_one_is_whole(folder):
    lines = folder / "entries.jsonl"
    lines.write_bytes(lines.read_bytes()[:-5])
    assert JOURNALS.read(folder)[1] == (CHECK,)
    with JOURNALS.open(folder, HEADER, resume=True) as journal:
        journal.append(POINT)
    assert JOURNALS.read(folder)[1] == (CHECK, POINT)


def test_folder_without_a_sweep_and_a_damaged_one_are_named(folder, tmp_path):
    with pytest.raises(UsageError, match="holds no sweep"):
        JOURNALS.read(tmp_path)
    (folder / "entries.jsonl").write_bytes(b"{}\n")
    with pytest.raises(NormbenchError, match=str(folder)):
        JOURNALS.read(folder)
