"""The outcome as a table."""

import msgspec

from normbench.gate.decide import Decision, Verdict
from normbench.gate.markdown import COLUMNS, INSTRUCTIONS, columns, markdown, reasons_of, rows
from normbench.gate.outcome import CaseResult, Code, Instructions, conclude
from normbench.gate.policy import Policy
from normbench.quantities.units import DASH


def result(case, verdict, code=None, **fields):
    return CaseResult(case=case, decision=Decision(verdict=verdict, reason=f"why {case}", **fields), code=code)


DIFFERENT = Code(text="the arms differ in a.py")
OUTCOME = conclude(
    Policy(),
    [
        result("fine", Verdict.PASS, ratio=1.001, low=0.995, high=1.007, smallest_detectable=0.0213, blocks=8),
        result("gone", Verdict.MISSING, blocks=0),
        result(
            "slow",
            Verdict.REGRESSION,
            code=Code(text="the arms differ in a.py"),
            ratio=1.08,
            low=1.07,
            high=1.09,
            smallest_detectable=0.021,
            blocks=12,
        ),
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


def test_markdown_shows_names_and_the_text_of_errors_as_they_are():
    error = "KeyError in __init__: `a|b` is no list[int] of *args"
    shown = r"KeyError in \_\_init\_\_: \`a\|b\` is no list\[int\] of \*args"
    failed = CaseResult(case="op/rms_norm@_mine", decision=Decision(verdict=Verdict.FAILED, reason=error))
    text = markdown(conclude(Policy(), [failed], [], notes=[error]), base="a_branch_", head="h", machine="m")
    assert rf"- op/rms_norm@\_mine: {shown}" in text
    assert f"- {shown}" in text.splitlines()
    assert r"| op/rms_norm@\_mine |" in text
    assert r"against base a_branch\_, on m." in text
    assert "__init__" not in text


def test_a_case_that_was_not_compared_says_why_and_one_that_got_worse_how_its_code_differs():
    assert reasons_of(OUTCOME) == ["gone: why gone", "slow: the arms differ in a.py"]
    assert "- slow: the arms differ in a.py" in markdown(OUTCOME, base="b", head="h", machine="m")


def test_instructions_have_a_column_only_where_they_were_counted():
    assert columns(OUTCOME) == COLUMNS
    slow = next(one for one in OUTCOME.cases if one.case == "slow")
    counted = msgspec.structs.replace(slow, instructions=Instructions(base=2e5, head=2.5e5))
    outcome = msgspec.structs.replace(OUTCOME, cases=(OUTCOME.cases[0], counted))
    assert columns(outcome) == (*COLUMNS, INSTRUCTIONS)
    assert [row[-1] for row in rows(outcome)] == ["1.250 (2e+05)", DASH, DASH]
    table = [line for line in markdown(outcome, base="b", head="h", machine="m").splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {len(COLUMNS) + 2}
