"""Evaluation: nothing is measured for a claim whose device is not here; what is computed is judged."""

from __future__ import annotations

from pathlib import Path

from normbench.claims.context import Context
from normbench.claims.evaluators import evaluate
from normbench.claims.verdict import Verdict
from normbench.published import claim as published

from .handmade import claim


def context():
    return Context(studies=Path("no-such-folder"), root=Path("no-such-folder"), quick=True, say=lambda text: None)


def ruling(one):
    (found,) = evaluate([one], context())
    return found


def test_deterministic_claims_are_exact_or_wrong():
    assert ruling(published("rmsnorm-row-mean-nonzero")).ruling.verdict is Verdict.EXACT
    assert ruling(published("drift-decay-scale-0-3")).ruling.verdict is Verdict.WRONG
    assert ruling(published("op-15-and-model-7-are-consistent")).ruling.verdict is Verdict.WRONG


def test_citation_has_another_scope_with_what_it_needs():
    found = ruling(published("resnet-56-worse-than-20"))
    assert found.ruling.verdict is Verdict.OTHER_SCOPE
    assert "CIFAR-10" in found.ruling.reason


def test_nothing_is_measured_for_a_claim_whose_package_is_not_here():
    found = ruling(claim(evaluator="no-such-evaluator", needs=("package:no_such_package",)))
    assert found.ruling.verdict is Verdict.OTHER_SCOPE
    assert found.measured is None


def test_claim_that_waits_has_no_verdict():
    found = ruling(published("toy-20-no-norm-nan-at-300"))
    assert found.ruling.verdict is None
    assert "normbench study collapse" in found.ruling.reason
