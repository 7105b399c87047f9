"""What is drawn: one published number per claim beside the one found here."""

from __future__ import annotations

from normbench.claims.evaluators import Evaluation
from normbench.claims.figure import STYLES, comparisons, draw
from normbench.claims.verdict import Measured, Value, Verdict, judge

from .handmade import claim, measured


def evaluation(one, found, **more):
    return Evaluation(claim=one, measured=found, ruling=judge(one, found, **more))


def test_saving_is_compared_by_its_percentage():
    (found,) = comparisons([evaluation(claim(), measured(12, 10, 14))])
    assert found.is_saving
    assert (found.published, found.value.estimate) == (15, 12)


def test_published_range_is_compared_by_its_middle():
    ranged = claim(published={"least": 7, "most": 9}, accept={"saved_percent": (7.0, 9.0)})
    (found,) = comparisons([evaluation(ranged, measured(3))])
    assert found.published == 8


def test_words_claims_without_figures_and_those_not_evaluated_are_not_drawn():
    words = claim(published={"saved_percent": "a lot"})
    waiting = Evaluation(claim=claim(), measured=None, ruling=judge(claim(), None, waits="waits"))
    assert comparisons([evaluation(words, measured(15)), waiting]) == []
    assert draw([waiting]) is None


def test_picture_holds_savings_and_ratios():
    count = claim(id="count", kind="exact", unit="", published={"parameters": 512}, accept={}, opposite={})
    far = claim(id="far", kind="exact", unit="", published={"time": 1.0}, accept={}, opposite={})
    found = [
        evaluation(claim(), measured(12, 10, 14)),
        evaluation(count, measured(512, name="parameters")),
        evaluation(far, Measured(values={"time": Value(estimate=1e9)}, where="here")),
    ]
    assert draw(found)[:4] == b"\x89PNG"


def test_every_verdict_has_a_colour_and_a_marker_of_its_own():
    assert set(STYLES) == set(Verdict)
    colours, markers = zip(*STYLES.values(), strict=True)
    assert len(set(colours)) == len(set(markers)) == len(Verdict)
