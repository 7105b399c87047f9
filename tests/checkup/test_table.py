"""What is shown of a check-up: exactness by norm and dtype, adversaries by provider, and a line for each thing that is wrong."""

from rich.console import Console

from normbench.cases.adversary import Layout, Trial, Values
from normbench.cases.case import Case
from normbench.checkup.table import failure_lines, tables
from normbench.checkup.verdict import Verdict
from normbench.quantities.units import DASH, TIMES
from normbench.records.record import Accuracy, Status


def verdict(provider="eager", status=Status.OK, *, case="op/rms_norm/forward/4x8/float32", error=0.5, ulps=1.5, trial=None, **fields):
    accuracy = Accuracy(
        tensor="y", dtype="float32", error=error, tolerance=1.0, max_abs=1e-7, ulps=ulps, nonfinite=0, passed=True, relative=6e-8
    )
    return Verdict(
        provider=provider,
        case=Case.from_id(case),
        trial=trial or Trial(),
        status=status,
        rows_checked=4,
        accuracy=() if status in (Status.UNSUPPORTED, Status.ERROR) else (accuracy,),
        **fields,
    )


def rows(*verdicts, width=200):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(tables(verdicts))
    return [" ".join(line.split()) for line in capture.get().splitlines()]


LARGE = Trial(values=Values.LARGE_MEAN)


def test_errors_are_told_by_provider_norm_and_dtype_with_the_worst_case_named():
    lines = rows(
        verdict(error=0.25, ulps=1.5),
        verdict(error=0.5, ulps=0.5, case="op/rms_norm/forward/3x17/float32", trial=Trial(layout=Layout.SLICED)),
        # Adversaries have a table of their own.
        verdict(error=0.75, ulps=9.0, trial=LARGE),
        verdict("aten", case="op/rms_norm/forward/4x8/float32/llama"),
    )
    assert f"eager rms_norm float32 2 1.5 6e-08 {DASH} {DASH} {DASH} 0.5 y of op/rms_norm/forward/3x17/float32 sliced" in lines
    assert f"aten rms_norm llama float32 1 1.5 6e-08 {DASH} {DASH} {DASH} 0.5 y of op/rms_norm/forward/4x8/float32/llama" in lines


def test_adversaries_are_told_by_provider():
    wrong = verdict("aten", Status.WRONG, error=38.0, reason="y is off", trial=LARGE)
    lines = rows(verdict(trial=LARGE), verdict(trial=LARGE), wrong, verdict("aten", trial=LARGE), verdict(trial=Trial(layout=Layout.HEADS)))
    assert f"values large_mean 2 right 0.5{TIMES} 1 of 2 wrong 38{TIMES}" in lines
    assert f"layout heads 1 right 0.5{TIMES} {DASH}" in lines


def test_past_float32_is_told_apart():
    lines = rows(verdict(status=Status.WRONG, reason="y is off by up to 2", trial=Trial(values=Values.OVERFLOW)))
    assert "values overflow 1 of 1 past float32" in lines
    assert any(line.startswith("past float32, not judged: eager in 1 cases") and "y is off by up to 2" in line for line in lines)


def test_what_is_not_computed_is_told_once_for_each_reason():
    reason = "F.rms_norm has no bias"
    lines = rows(*(verdict("aten", Status.UNSUPPORTED, reason=reason) for _ in range(3)), verdict())
    assert lines.count(f"unsupported aten, 3 of its trials: {reason}") == 1


def test_bits_that_change_are_told():
    assert any(line.startswith("not bit-equal on a second call: eager in 1 trials") for line in rows(verdict(is_repeatable=False)))
    assert not any("bit-equal" in line for line in rows(verdict(is_repeatable=True), verdict()))


def test_a_failure_is_a_line_with_who_what_and_why():
    failures = failure_lines(
        [
            verdict(),
            verdict("aten", Status.WRONG, reason="dx is off", trial=LARGE),
            verdict("mine", Status.ERROR, reason="SIGSEGV"),
            verdict("aten", Status.UNSUPPORTED, reason="no bias"),
            verdict(status=Status.WRONG, reason="y is 0", trial=Trial(values=Values.OVERFLOW)),
        ]
    )
    assert failures == [
        "wrong aten op/rms_norm/forward/4x8/float32 large_mean: dx is off",
        "error mine op/rms_norm/forward/4x8/float32: SIGSEGV",
    ]


def test_no_figure_and_no_case_is_cut_in_a_narrow_terminal():
    worst = "op/rms_norm/forward_backward/8192x4096/bfloat16/w-float32"
    lines = rows(verdict(case=worst), width=80)
    assert any(worst in line for line in lines)
    assert any("1.5 6e-08" in line for line in lines)
