"""What a reader is told besides the figures: here, who computes something else than the norm's own formula."""

import pytest
import synthetic

from normbench.cases.case import Case
from normbench.cases.definition import Definition
from normbench.records.record import Departure
from normbench.report.findings import oddities
from normbench.results.derived import derive_results

CASE = Case.make("rms_norm", "forward", (8, 256, 1024), "float32")


def said_of(*departures):
    records = [synthetic.record(CASE, f"own{place}", departure=one) for place, one in enumerate(departures)]
    return [sentence for sentence in oddities(derive_results([*records, *synthetic.group(CASE)]), None) if "formula" in sentence]


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        pytest.param(
            Definition.EPS_OUTSIDE_ROOT, "**another formula**: `own0` computes x / (sqrt(mean(x^2)) + eps) * weight", id="function"
        ),
        pytest.param(
            Definition.UNROUNDED_SUM, "another rounding: `own0` computes the norm of x + residual before it is rounded", id="rounding"
        ),
    ],
)
def test_another_definition_is_named_with_its_formula_and_its_distance_from_the_norms(definition, words):
    sentence = said_of(Departure(definition=definition, accuracy=(synthetic.accuracy(),)))[0]
    assert sentence.startswith(words)
    assert "they are up to 2.0 ulps of float32 (0.00000010) apart, in y: `op/rms_norm/" in sentence


def test_a_distance_that_was_not_measured_is_said_to_be_none():
    departure = Departure(definition=Definition.EPS_OUTSIDE_ROOT, accuracy=())
    assert "how far apart the two are was not measured" in said_of(departure)[0]


def test_each_provider_and_definition_is_said_once():
    apart = [Departure(definition=definition, accuracy=(synthetic.accuracy(),)) for definition in (*Definition,) if definition != "formula"]
    assert len([sentence for sentence in said_of(*apart) if "computes" in sentence]) == 2


def test_nothing_is_said_where_all_compute_the_formula():
    assert said_of() == []
