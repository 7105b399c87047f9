"""Figures of claims from observations: seed by seed, with what is missing said."""

from __future__ import annotations

from math import inf, nan

import pytest

from normbench.claims.from_studies import from_study, from_windows
from normbench.claims.verdict import Verdict, judge
from normbench.published import claim as published
from normbench.studies.observation import Observation, Trial

from .handmade import claim


class Studies:
    """Stand in for a context with one study."""

    def __init__(self, observations, **common):
        self.found = (common, tuple(observations))

    def observed(self, name):
        assert name in ("collapse", "learning-rate")
        return self.found


def observation(seed, norm, **values):
    return Observation.of("collapse", Trial(setting={"norm": norm}, seed=seed), values=values)


OBSERVATIONS = [
    observation(0, "none", final_loss=3.0, first_nonfinite=inf),
    observation(1, "none", final_loss=nan, first_nonfinite=300),
    observation(2, "none", final_loss=3.4, first_nonfinite=inf),
    *(observation(seed, "layer_norm", final_loss=2.0 + seed / 10, first_nonfinite=inf) for seed in range(3)),
]
PICKS = {"none": {"norm": "none", "value": "final_loss"}, "normed": {"norm": "layer_norm", "value": "final_loss"}}


def found(context, **options):
    return from_study(claim(evaluator="study", options={"study": "collapse", **options}), context)


def test_figures_are_means_over_seeds_with_intervals():
    values = found(Studies(OBSERVATIONS), picks=PICKS).values
    assert values["normed"].estimate == pytest.approx(2.1)
    assert values["normed"].low < 2.1 < values["normed"].high
    assert values["none"].estimate == pytest.approx(3.2)
    assert values["none"].note == "not finite in 1 of 3 seeds"


def test_formulas_are_computed_seed_by_seed():
    values = found(Studies(OBSERVATIONS), picks=PICKS, derive={"worse_by": "none - normed", "is_worse": "worse_by > 1.1"}).values
    assert values["worse_by"].estimate == pytest.approx((1.0 + 1.2) / 2)
    assert (values["is_worse"].estimate, values["is_worse"].note) == (pytest.approx(1 / 3), "1 of 3 seeds")


def test_what_is_never_reached_and_what_is_lost_are_words():
    values = found(Studies(OBSERVATIONS), setting={"norm": "layer_norm"}, values=["first_nonfinite"]).values
    assert values["first_nonfinite"].estimate == "never"
    lost = [observation(seed, "none", final_loss=nan) for seed in range(2)]
    assert found(Studies(lost), values=["final_loss"]).values["final_loss"].estimate == "NaN"


def diverging(lost, wanted=3, seeds=3):
    """Return what is found of a claim that a loss is 2.0, of which so many of the seeds have none."""
    losses = [nan] * lost + [2.0] * (seeds - lost)
    asked = claim(
        accept={"loss": (1.9, 2.1)},
        opposite={},
        options={"study": "collapse", "picks": {"loss": {"value": "final_loss"}}, "seeds": wanted},
    )
    observations = [observation(seed, "none", final_loss=loss) for seed, loss in enumerate(losses)]
    return asked, from_study(asked, Studies(observations))


def test_figure_that_most_seeds_lost_is_no_number_and_agrees_with_none():
    asked, measured = diverging(2)
    assert (measured.values["loss"].estimate, measured.values["loss"].note) == ("NaN", "2 of 3 seeds")
    assert judge(asked, measured).verdict is Verdict.NOT_REPRODUCED
    assert judge(*diverging(0)).verdict is Verdict.REPRODUCED


def test_seeds_that_are_asked_for_must_be_finite():
    assert "loss is finite in 2 of 3 seeds" in diverging(1)[1]
    assert judge(*diverging(1, seeds=4)).verdict is Verdict.REPRODUCED


def test_step_that_most_seeds_never_reach_is_never():
    steps = [observation(seed, "none", first_nonfinite=step) for seed, step in enumerate((300.0, inf, inf))]
    value = found(Studies(steps), values=["first_nonfinite"]).values["first_nonfinite"]
    assert (value.estimate, value.note) == ("never", "2 of 3 seeds")


@pytest.mark.parametrize(
    ("name", "lost"),
    [("pre-ln-needs-no-warmup", {"scheme": "pre"}), ("toy-layernorm-rmsnorm-gap", {"norm": "rms_norm", "depth": 20})],
)
def test_published_claims_are_not_reproduced_by_the_one_seed_that_trains(name, lost):
    options = published(name).options
    settings = [options["setting"] | {key: value for key, value in pick.items() if key != "value"} for pick in options["picks"].values()]
    observations = [
        Observation.of("x", Trial(setting=one, seed=seed), values={"final_loss": nan if seed and lost.items() <= one.items() else 2.0})
        for one in settings
        for seed in range(3)
    ]
    assert judge(published(name), from_study(published(name), Studies(observations, steps=3000))).verdict is Verdict.NOT_REPRODUCED


def test_one_seed_can_be_asked_for():
    measured = found(Studies(OBSERVATIONS), setting={"norm": "layer_norm"}, values=["final_loss"], seed=2)
    assert measured.values["final_loss"].estimate == pytest.approx(2.2)
    assert measured.values["final_loss"].low is None
    assert measured.where == "study collapse, seed 2"


def test_too_few_steps_seeds_or_trials_are_said():
    assert "it has 100 steps here, and the claim is about 3000" in found(Studies(OBSERVATIONS, steps=100), picks=PICKS, steps=3000)
    assert "3 of 5 seeds" in found(Studies(OBSERVATIONS, steps=3000), picks=PICKS, steps=3000, seeds=5)
    assert "0 of 1 seeds" in found(Studies(OBSERVATIONS), setting={"norm": "rms_norm"}, values=["final_loss"])


def test_study_that_is_not_there_passes_its_reason_on():
    class Nothing:
        def observed(self, name):
            return "waits for the study"

    assert found(Nothing(), picks=PICKS) == "waits for the study"


def test_windows_are_those_of_each_network():
    def trained(depth, scheme, rate, loss):
        setting = {"depth": depth, "scheme": scheme, "rate": rate, "warmup": 0}
        return Observation.of("learning-rate", Trial(setting=setting, seed=0), values={"loss_0": 4.2, "final_loss": loss})

    observations = [
        trained(depth, scheme, rate, 2.5 if scheme == "pre" or (depth == 12 and rate < 1e-3) else nan)
        for depth in (12, 30)
        for scheme in ("pre", "post")
        for rate in (1e-4, 3e-4, 1e-3)
    ]
    asked = claim(evaluator="windows", options={"steps": 10, "seeds": 1})
    values = from_windows(asked, Studies(observations, steps=10)).values
    assert {name: round(value.estimate, 2) for name, value in values.items()} == {
        "post_12": 0.48,
        "pre_12": 1.0,
        "post_30": 0.0,
        "pre_30": 1.0,
    }
    assert "post 12 has 1 of 3 seeds" in from_windows(claim(options={"steps": 10, "seeds": 3}), Studies(observations, steps=10))
