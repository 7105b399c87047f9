"""The outcome as a table."""

from normbench.gate.decide import Decision, Verdict
from normbench.gate.markdown import COLUMNS, markdown, rows
from normbench.gate.outcome import CaseResult, conclude
from normbench.gate.policy import Policy
from normbench.report.units import DASH


def result(case, verdict, **fields):
    return CaseResult(case=case, decision=Decision(verdict=verdict, reason=f"why {case}", **fields))


OUTCOME = conclude(
    Policy(),
    [
        result("fine", Verdict.PASS, ratio=1.001, low=0.995, high=1.007, smallest_detectable=0.0213, blocks=8),
        result("gone", Verdict.MISSING, blocks=0),
        result("slow", Verdict.REGRESSION, ratio=1.08, low=1.07, high=1.09, smallest_detectable=0.021, blocks=12),
    ],
    [result("layer_norm@control", Verdict.PASS, ratio=1.0, low=0.99, high=1.01, smallest_detectable=0.03, blocks=26)],
    notes=["a note"],
)


def test_what_asks_for_something_to_be_done_stands_on_top_and_controls_below():
    assert [row[0] for row in rows(OUTCOME)] == ["slow", "gone", "fine", "control layer_norm"]


def test_a_row_has_the_ratio_its_interval_the_verdict_and_what_could_have_been_seen():
    assert dict(zip(COLUMNS, rows(OUTCOME)[2], strict=True)) == {
        "case": "fine",
        "head / base": "1.001",
        "95 % interval": f"0.995{DASH}1.007",
        "verdict": "pass",
        "smallest change found": "2.1 %",
        "blocks": "8",
    }


def test_what_was_not_computed_is_a_dash():
    assert rows(OUTCOME)[1] == ("gone", DASH, DASH, "missing", DASH, DASH)


def test_markdown_begins_with_the_sentence_and_says_what_was_compared_where_and_why():
    text = markdown(OUTCOME, base="main at 1a2b", head=". at 3c4d", machine="a CPU")
    assert text.startswith(f"**{OUTCOME.sentence}**\n")
    assert "head . at 3c4d against base main at 1a2b, on a CPU." in text
    assert "- gone: why gone" in text
    assert "- a note" in text
    assert text.count("\n|") == 2 + len(rows(OUTCOME))
