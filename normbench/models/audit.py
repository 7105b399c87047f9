"""The norms of a model, where each stands, and what is amiss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from torch import nn

from ..cases.case import Convention, Norm
from .flow import record
from .norms import FoundNorm, Left, survey
from .places import NormPlace, Place, Places

__all__ = ["Audit", "AuditedNorm", "audit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedNorm:
    """Describe one norm of a model. `place`, `calls` and `shapes` are those of one forward pass, None and empty where none was run.

    `width` is the number of values that a statistic runs over; `eps` None is the machine epsilon of the computation.
    """

    name: str
    norm: Norm
    place: Place | None
    width: int
    eps: float | None
    convention: Convention
    parameters: int
    calls: int | None
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Hold the norms of a model, the modules that only look like one, counts of parameters, and remarks, each a sentence."""

    norms: tuple[AuditedNorm, ...]
    left: tuple[Left, ...]
    parameters: int
    norm_parameters: int
    remarks: tuple[str, ...]


def audit(model: nn.Module, batch: Mapping[str, Any] | None) -> Audit:
    """Return the audit of a model; `batch` holds keyword arguments for one forward pass, without which no place is known.

    How norms are found, see `probe.py`; how places are, see `places.py`. The model stays as it was.
    """
    found, left = survey(model)
    places = None if batch is None else Places(record(model, batch, {one.name: one.module for one in found}))
    norms = tuple(_audited(one, None if places is None else places.of(one.name)) for one in found)
    # Norms may share parameters, and a shared one counts once.
    of_norms = {id(parameter): parameter.numel() for one in found for parameter in one.module.parameters()}
    return Audit(
        norms=norms,
        left=left,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        norm_parameters=sum(of_norms.values()),
        remarks=tuple(_remarks(norms, places)),
    )


def _audited(found: FoundNorm, place: NormPlace | None) -> AuditedNorm:
    return AuditedNorm(
        name=found.name,
        norm=found.norm,
        place=None if place is None else place.place,
        width=prod(found.normalized_shape),
        eps=found.eps,
        convention=found.convention,
        parameters=found.parameters,
        calls=None if place is None else place.calls,
        shapes=() if place is None else place.shapes,
    )


def _remarks(norms: tuple[AuditedNorm, ...], places: Places | None) -> list[str]:
    if places is None:
        return ["places are not known: no forward pass was run, for nobody said what the model takes"]
    remarks = []
    if places.bare_ends:
        trunks = "1 trunk has" if places.bare_ends == 1 else f"{places.bare_ends} trunks have"
        remarks.append(
            f"{trunks} norms in its branches and none at its end: what is summed up grows with depth, "
            "and a Pre-LN stack needs a final norm before its head (arXiv:2002.04745)"
        )
    if any(one.place is Place.POST for one in norms) and any(one.place is Place.FINAL for one in norms):
        remarks.append("a trunk with norms on it ends in one more, a final norm: it norms what is normed already, but for weight and bias")
    if idle := [one.name for one in norms if not one.calls]:
        remarks.append(f"not called in this forward pass: {', '.join(idle)}")
    return remarks
