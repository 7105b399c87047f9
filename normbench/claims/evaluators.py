"""Who yields the figures of a claim: evaluators by the name that a claim's data gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from ..published import Claim
from .computations import computed
from .context import Context
from .from_runs import from_model, from_op, from_providers
from .from_studies import from_study, from_windows
from .from_throughput import from_throughput
from .needs import unmet
from .verdict import Measured, Ruling, judge

__all__ = ["EVALUATORS", "Evaluation", "evaluate"]

Evaluator = Callable[[Claim, Context], Measured | str]
"""Return what was found, or in words why nothing was."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a claim, what was found here, and the ruling."""

    claim: Claim
    measured: Measured | None
    ruling: Ruling


def _computation(claim: Claim, context: Context) -> Measured | str:
    options = dict(claim.options)
    name = options.pop("name")
    return Measured(values=computed(name, **options), where=f"computation {name}")


def _citation(claim: Claim, context: Context) -> Measured | str:
    return "its figure is quoted, and nothing that this package runs comes near it"


EVALUATORS: dict[str, Evaluator] = {
    "citation": _citation,
    "computation": _computation,
    "model": from_model,
    "op": from_op,
    "op_providers": from_providers,
    "study": from_study,
    "throughput": from_throughput,
    "windows": from_windows,
}


def evaluate(claims: Sequence[Claim], context: Context) -> Iterator[Evaluation]:
    """Yield the evaluation of each claim. What its scope needs and is not here is looked up before anything is measured for it."""
    for claim in claims:
        lacking = unmet(claim.needs)
        found = "" if lacking and claim.is_tied_to_device else EVALUATORS[claim.evaluator](claim, context)
        measured = None if isinstance(found, str) else found
        ruling = judge(claim, measured, unmet=lacking, waits=found if isinstance(found, str) else "")
        yield Evaluation(claim=claim, measured=measured, ruling=ruling)
