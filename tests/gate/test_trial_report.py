"""The words, tables and picture of a validation."""

from __future__ import annotations

import json
import struct

import msgspec

from normbench.gate.decide import Verdict
from normbench.gate.outcome import ExitCode
from normbench.gate.peers import Call, Rule
from normbench.gate.policy import Policy
from normbench.gate.trial_figure import figure
from normbench.gate.trial_report import analysed, markdown, sentence, tables
from normbench.gate.validation import GateRun, PeerSample
from normbench.quantities.units import DASH

A, B = "a case", "another"


def run(verdicts, *, slowed=None, seconds=30.0):
    size = 0.05 if slowed else 0.0
    logs = dict.fromkeys(verdicts, (0.001, -0.001, 0.002, -0.002, 0.0, 0.001, -0.001, 0.0))
    return GateRun(policy=Policy(), cases=4, logs=logs, verdicts=verdicts, asked=size, slowdown=1.02 * size, slowed=slowed, seconds=seconds)


def findings():
    same = [run({A: Verdict.PASS, B: Verdict.PASS}) for _ in range(3)] + [run({A: Verdict.REGRESSION, B: Verdict.PASS}, seconds=50.0)]
    slowed = [run({A: Verdict.REGRESSION, B: Verdict.PASS}, slowed=A), run({A: Verdict.PASS, B: Verdict.REGRESSION}, slowed=A)]
    peers = [
        PeerSample(run=0, case=A, manner="one after the other", is_slowed=False, calls={Rule.PYTEST_BENCHMARK_MIN: Call.RED}),
        PeerSample(run=4, case=A, manner="one after the other", is_slowed=True, calls={Rule.PYTEST_BENCHMARK_MIN: Call.GREEN}),
    ]
    return analysed([*same, *slowed], [ExitCode.PASS] * 3 + [ExitCode.REGRESSION] * 3, peers, seed=0)


def test_sentence_counts_false_alarms_and_finds_by_size():
    assert sentence(findings()) == (
        "1 of 4 runs of the same code were red; 1 of 2 slow-downs of 5 % were found; 1 of 2 runs with one called another case slower."
    )


def test_every_table_row_is_as_wide_as_its_header():
    for columns, rows in tables(findings()):
        assert rows
        assert {len(row) for row in rows} == {len(columns)}


def test_shares_stand_with_their_exact_intervals_and_true_sizes_with_the_asked_ones():
    (_, rates), (_, sizes), _, (_, peers) = tables(findings())
    assert rates[0] == ("runs of the same code called red", "1 of 4", "25 %", f"0.6{DASH}80.6 %")
    assert sizes == [("5 %", "5.1 %", "1 of 2", "50 %", f"1.3{DASH}98.7 %", "0")]
    assert peers[0] == ("one after the other", "pytest-benchmark min:5%", "1 of 1", "100 %", "0 of 1", "0 %")


def test_markdown_says_where_how_long_and_how_runs_ended():
    text = markdown(findings(), title="The gate", place="a machine")
    assert text.startswith("# The gate\n")
    assert "6 whole runs on a machine." in text
    assert "A run took 30 to 50 s" in text
    assert "ends: pass 3, regression 3" in text


def test_findings_are_strict_json():
    assert json.loads(msgspec.json.encode(findings()))["runs"] == 6


def test_findings_without_slowdowns_and_peers_have_fewer_tables_and_still_a_picture():
    found = analysed([run({A: Verdict.PASS})], [ExitCode.PASS], [], seed=0)
    assert "Slow-downs" not in markdown(found, title="t", place="p")
    width, _ = struct.unpack(">II", figure(found, "a machine")[16:24])
    assert width == 1200
