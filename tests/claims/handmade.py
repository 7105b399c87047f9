"""Claims and findings made by hand."""

from __future__ import annotations

from normbench.claims.verdict import Measured, Value
from normbench.published import Claim


def claim(**changes):
    """Return a measured claim that RMSNorm saves 15 %, with whatever is changed."""
    about = {
        "id": "a-claim",
        "source": "norm-article",
        "place": "1",
        "tier": "op",
        "scope": "a shape",
        "statement": "RMSNorm is faster.",
        "kind": "measured",
        "unit": "%",
        "published": {"saved_percent": 15},
        "accept": {"saved_percent": (10.0, 20.0)},
        "opposite": {"saved_percent": (float("-inf"), 0.0)},
        "evaluator": "op",
    }
    return Claim(**(about | changes))


def measured(estimate, low=None, high=None, name="saved_percent", **more):
    return Measured(values={name: Value(estimate=estimate, low=low, high=high)}, where="here", **more)
