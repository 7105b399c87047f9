"""An id says which tier it is of, and JSON too."""

import msgspec
import pytest

from normbench.cases.case import Case, Tier
from normbench.cases.model_case import ModelCase
from normbench.cases.throughput_case import ThroughputCase
from normbench.cases.tiers import AnyCase, parse_case
from normbench.errors import UsageError

IDS = {
    Tier.OP: "op/rms_norm/forward/8x64/float32",
    Tier.MODEL: "model/gpt2-tiny/rms_norm/forward/2x64/float32",
    Tier.THROUGHPUT: "throughput/gpt2-tiny/rms_norm/decode/2x64/float32",
}
KINDS = {Tier.OP: Case, Tier.MODEL: ModelCase, Tier.THROUGHPUT: ThroughputCase}


@pytest.mark.parametrize(("tier", "case_id"), IDS.items())
def test_a_case_comes_back_from_its_id_and_from_json_as_what_it_is(tier, case_id):
    case = parse_case(case_id)
    assert (case.tier, case.id) == (tier, case_id)
    assert type(case) is KINDS[tier]
    assert msgspec.json.decode(msgspec.json.encode(case), type=AnyCase) == case


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("ops/rms_norm/forward/8x64/float32", "tier 'ops' is unknown"),
        ("throughput/a/b/c/d", "is not of the form throughput/network-preset"),
    ],
)
def test_what_is_no_case_of_a_tier_is_refused(text, fault):
    with pytest.raises(UsageError, match=fault):
        parse_case(text)
