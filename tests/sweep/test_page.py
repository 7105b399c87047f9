"""A page says what held, what was found and how sure it is; what is not known is not said."""

from __future__ import annotations

import struct

import pytest

from normbench.sweep.conduct import Observer, conduct
from normbench.sweep.entry import Point, Verdict
from normbench.sweep.figure import draw
from normbench.sweep.journal import JOURNALS
from normbench.sweep.page import markdown, write_page
from normbench.sweep.plain import plain_sweep
from normbench.sweep.summary import summarise
from normbench.sweep.table import ARM_COLUMNS, arm_rows, said_of, side_rows

from .made import FakeEngine, header, question

ROOM = {"layer_norm:eager": 20, "layer_norm:aten": 40, "rms_norm:eager": 21, "rms_norm:aten": 0}


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    with JOURNALS.open(tmp_path_factory.mktemp("sweep"), header(), resume=False) as journal:
        conduct(journal, FakeEngine(ROOM), Observer())
        return journal.entries


@pytest.fixture(scope="module")
def company(entries):
    (found,) = summarise(question(), entries)
    return found


def test_row_of_an_arm_says_the_largest_batch_and_how_sure_it_is(company):
    eager, aten, _, nothing = [dict(zip(ARM_COLUMNS, row, strict=True)) for row in arm_rows(company)]
    assert (eager["largest batch"], eager["how sure"]) == ("20", "exact")
    assert aten["how sure"] == "42 does not fit; between them nothing was tried"
    assert aten["peak memory there"] == "39.1 KiB"
    assert aten["tokens/s there"].startswith("998 (99")
    assert (nothing["largest batch"], nothing["how sure"]) == ("\u2013", "not even batch 1 fits")


def test_largest_that_was_tried_is_a_lower_bound(tmp_path):
    asked = question(most=8)
    with JOURNALS.open(tmp_path, header(asked), resume=False) as journal:
        conduct(journal, FakeEngine(dict.fromkeys(ROOM, 100)), Observer())
    (company,) = summarise(asked, journal.entries)
    assert [row[2] for row in arm_rows(company)] == ["\u2265 8"] * 4
    assert "larger ones may" in arm_rows(company)[0][-1]


def test_sweep_that_was_cut_short_names_no_largest_as_final(entries):
    (company,) = summarise(question(), entries[:10])
    assert [one.standing for one in company.arms] == [*["cut short before the largest batch was found"] * 3, "not even batch 1 fits"]
    assert side_rows(company) == []


def test_side_by_side_is_compared_with_pytorchs_own_layer_norm(company):
    rows = {(norm, provider): speed_up for norm, provider, _, speed_up in side_rows(company)}
    assert rows["layer_norm", "aten"] == "1 (reference)"
    assert rows["rms_norm", "eager"].startswith("1.00\u00d7 (")
    assert ("rms_norm", "aten") not in rows


def test_page_begins_with_the_limit_and_ends_with_how_it_was_made(company):
    text = markdown(header(), [company], has_picture=True)
    assert (
        text.index("Limit: a process may map 512 MiB.") < text.index("![Tokens") < text.index("## gpt2-tiny train") < text.index("## How")
    )
    assert "halves of what lies between" in text
    assert "to 0.0625 of the largest batch, exactly below 32" in text
    assert "They did not fit together at 20 and 10." in text
    assert "| layer_norm | aten | 42 | out of memory |" in text
    assert text.rstrip().endswith("torch 2.13.0; a machine, cpu, 1 thread. Made by `normbench sweep`.")


def test_page_and_picture_are_written_side_by_side(entries, tmp_path):
    page = write_page(header(), entries, tmp_path / "new")
    assert page.read_text().count("](sweep.png)") == 1
    width, _ = struct.unpack(">II", (tmp_path / "new" / "sweep.png").read_bytes()[16:24])
    assert width == 1200


def test_sweep_in_which_nothing_was_timed_has_a_page_without_a_picture(tmp_path):
    page = write_page(header(), [], tmp_path)
    assert "Nothing was timed." in page.read_text()
    assert not (tmp_path / "sweep.png").exists()
    assert draw("title", summarise(question(), [])) is None


def test_plain_values_hold_every_batch_unrounded(entries):
    found = plain_sweep(header(), entries)
    (company,) = found["companies"]
    aten = company["arms"][1]
    assert (aten["largest"]["batch"], aten["smallest_failed"]) == (40, 42)
    assert [point["batch"] for point in aten["points"]] == [1, 2, 4, 8, 16, 32, 40, 42, 44, 48, 64]
    assert aten["points"][-1]["reason"] == "can't allocate memory"
    assert company["side_by_side"]["tried"] == [20, 10]
    assert found["limit"]["limit_bytes"] == 2**29


def test_batch_is_said_in_a_few_words():
    fits = Point(arm="a", batch=1, verdict=Verdict.FITS, tokens=64, samples_s=((0.1,), (0.1,)), peak_bytes=2**20)
    assert said_of(fits) == "fits, 640 tokens/s (640\u2013640), 1.00 MiB"
    assert said_of(Point(arm="a", batch=1, verdict=Verdict.OUT_OF_MEMORY, tokens=64, reason="x")) == "out of memory"
    assert said_of(Point(arm="a", batch=1, verdict=Verdict.FAILED, tokens=64, reason="broken")) == "failed: broken"
