"""The claims as data: whole, consistent, and each with someone who yields its figures."""

from __future__ import annotations

import pytest

from normbench.claims.computations import COMPUTATIONS
from normbench.claims.evaluators import EVALUATORS
from normbench.claims.needs import unmet
from normbench.errors import UsageError
from normbench.published import claim, claims, sources
from normbench.studies.catalogue import study
from normbench.studies.study import Scale

TIERS = {"op", "model", "throughput", "quality", "accounting"}
KINDS = {"exact", "measured", "cited"}

every = pytest.mark.parametrize("one", claims(), ids=[one.id for one in claims()])


def test_ids_are_unique_and_found():
    assert len({one.id for one in claims()}) == len(claims()) >= 114
    assert claim("drift-decay-scale-0-3").tier == "quality"


def test_unknown_claim_says_how_they_are_listed():
    with pytest.raises(UsageError, match="normbench claims --list"):
        claim("no-such-claim")


@every
def test_claim_says_where_it_stands_what_kind_it_is_and_who_yields_it(one):
    assert one.source in sources()
    assert one.tier in TIERS
    assert one.kind in KINDS
    assert one.evaluator in EVALUATORS
    assert one.statement.endswith(".")
    assert one.published
    unmet(one.needs)


@every
def test_bands_run_from_least_to_most_and_a_contradiction_is_outside_of_them(one):
    assert all(low <= high for low, high in [*one.bands().values(), *one.opposite.values()])
    for name, (low, high) in one.opposite.items():
        accepted = one.accept[name]
        assert high <= accepted[0] or low >= accepted[1]


@every
def test_claim_is_judged_by_figures_unless_it_is_a_citation(one):
    if one.evaluator == "citation":
        assert one.needs, "what is missing is said"
    elif one.kind != "exact":
        assert one.bands()


@pytest.mark.parametrize("one", [one for one in claims() if one.evaluator == "study"], ids=lambda one: one.id)
def test_study_of_a_claim_plans_the_trials_that_it_picks(one):
    options = one.options
    plan = study(options["study"]).plan(Scale())
    trials = plan.trials
    assert options.get("steps", 0) <= plan.common.get("steps", 0)
    picks = {name: {"value": name} for name in options.get("values", ())} | options.get("picks", {})
    for pick in picks.values():
        wanted = options.get("setting", {}) | {name: value for name, value in pick.items() if name != "value"}
        seeds = {trial.seed for trial in trials if wanted.items() <= trial.setting.items()}
        assert len(seeds) >= options.get("seeds", 1)
        assert options.get("seed", next(iter(seeds))) in seeds


@pytest.mark.parametrize(
    ("name", "half_width"), [("exit-norm-post-ln", 0.0005), ("exit-norm-pre-ln", 0.0005), ("residual-stream-norms-12-blocks", 0.01)]
)
def test_figures_of_the_trunk_agree_to_what_is_granted_them(name, half_width):
    for figure, (low, high) in claim(name).bands().items():
        assert (low, high) == pytest.approx((claim(name).number(figure) - half_width, claim(name).number(figure) + half_width))


def test_computations_of_claims_are_there():
    assert {one.options["name"] for one in claims() if one.evaluator == "computation"} == COMPUTATIONS.keys()
