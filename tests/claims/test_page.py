"""The page: a count per verdict, a row per claim, everything in full, and no claim without its reason."""

from __future__ import annotations

import struct

from normbench.claims.evaluators import Evaluation
from normbench.claims.page import counts, markdown, published_text, write_page
from normbench.claims.verdict import Bound, judge

from .handmade import claim, measured

BOUND = Bound(name="saved_percent", most=30.0, text="norms take 30 % of the time")


def evaluation(one, found, **more):
    return Evaluation(claim=one, measured=found, ruling=judge(one, found, **more))


FOUND = [
    evaluation(claim(), measured(15, 12, 18, bounds=(BOUND,))),
    evaluation(claim(id="another", tier="model", differs="another model"), None, waits="waits for a run"),
    evaluation(
        claim(id="exact-one", kind="exact", tier="accounting", unit="", published={"parameters": 512}, accept={}, opposite={}),
        measured(512, name="parameters"),
    ),
]


def text():
    return markdown(FOUND, command="normbench claims", machine="a machine", has_picture=True)


def test_counts_are_by_verdict_and_name_what_was_not_evaluated():
    assert counts(FOUND) == {"exact": 1, "reproduced": 1, "no verdict": 1}
    assert "**3 claims: 1 exact, 1 reproduced, 1 no verdict.**" in text()


def test_every_claim_has_a_row_of_its_tier_and_its_reason_in_full():
    page = text()
    assert page.index("## op") < page.index("| a-claim | 15 % |") < page.index("## model")
    assert "**no verdict**: waits for a run" in page
    assert "what differs: another model" in page
    assert "bound: norms take 30 % of the time" in page
    assert "found here: saved_percent 15 (12 to 18); here" in page


def test_sources_are_named_with_where_they_stand():
    assert "2305.14858" in text()


def test_published_figures_are_shown_as_they_were_given():
    assert published_text(claim()) == "15 %"
    assert published_text(claim(published={"least": 7, "most": 9})) == "7 to 9 %"
    assert published_text(claim(published={"layer_norm": 2, "rms_norm": 1})) == "layer_norm 2, rms_norm 1"
    assert published_text(claim(published={"said": "faster"})) == "faster"


def test_page_and_picture_are_written(tmp_path):
    page = write_page(FOUND, tmp_path / "claims", command="normbench claims", machine="a machine")
    assert "](claims.png)" in page.read_text()
    width, _ = struct.unpack(">II", (tmp_path / "claims" / "claims.png").read_bytes()[16:24])
    assert width == 1200


def test_page_without_a_number_has_no_picture(tmp_path):
    page = write_page(FOUND[1:2], tmp_path, command="normbench claims", machine="a machine")
    assert "claims.png" not in page.read_text()
    assert not (tmp_path / "claims.png").exists()
