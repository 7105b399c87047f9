"""A finding is a row: today's launch, the best, how far apart they are and why."""

from normbench.cases.case import DType, Pass
from normbench.tuning.ranking import stand
from normbench.tuning.tables import COLUMNS, Finding, markdown_of, row_of

from .test_ranking import TODAY, an_estimate, judge


def finding(**judged):
    return Finding(direction=Pass.FORWARD, dtype=DType.BFLOAT16, cols=1024, arch="sm_90", standing=stand(judge(**judged), TODAY))


def test_a_row_says_what_is_launched_and_what_would_be_better():
    row = row_of(finding(today=an_estimate(1.5), other=an_estimate(1.0)))
    assert row[:9] == (
        "forward",
        "bfloat16",
        "1024",
        "sm_90",
        "1 x 1024, 4 warps",
        "1.50",
        "1 x 1024, 8 warps",
        "1.00",
        "50 % slower by the model",
    )
    assert row[9].startswith("21.3 KiB in flight")


def test_time_is_named_where_it_decided():
    assert "25 % slower by the clock" in row_of(finding(today=(an_estimate(), 1.0), other=(an_estimate(), 0.8)))


def test_a_launch_that_is_best_stands_alone():
    row = row_of(finding(today=an_estimate(1.0), other=an_estimate(1.5)))
    assert row[6:9] == ("the same", "", "best")


def test_a_launch_that_breaks_a_budget_has_no_figure():
    row = row_of(finding(today=an_estimate(broken=["8 bytes of stack"]), other=an_estimate(1.0)))
    assert (row[5], row[8], row[9]) == ("broken", "broken", "8 bytes of stack")


def test_markdown_has_a_row_for_each_finding_and_says_what_compiled():
    text = markdown_of([finding(today=an_estimate())] * 2, {"triton": "3.7.1"})
    lines = text.splitlines()
    assert lines[0] == "Compiled by triton 3.7.1."
    assert all(line.count("|") == len(COLUMNS) + 1 for line in lines[2:])
    assert len(lines) == 2 + 2 + 2
