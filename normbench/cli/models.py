"""`normbench models`: the networks there are, the norms of a model, and conversion from LayerNorm to RMSNorm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .convert import convert
from .show import AsJson, print_json, show_rows, show_table

if TYPE_CHECKING:
    from ..models.audit import Audit, AuditedNorm

__all__ = ["models"]

models = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="List networks, audit the norms of a model, convert a model.")
models.command()(convert)

MACHINE = "dtype's"
"""Shown for an eps that is the machine epsilon of the computation."""


@models.command("list")
def list_networks(as_json: AsJson = False) -> None:
    """List the networks that can be named, with their norm, its position and their presets."""
    from ..cases.shape import shape_text
    from ..catalogue import REQUIREMENTS
    from ..models.networks import PRESETS, networks

    rows = []
    for network in networks():
        missing = REQUIREMENTS[network.recipe.extra].missing() if network.recipe.extra else None
        sizes = {preset: shape_text(network.size(preset)) for preset in PRESETS}
        rows.append(
            {
                "network": network.name,
                "norm": network.norm.value,
                "position": network.position.value,
                **sizes,
                "summary": network.summary,
                "missing": missing,
                "note": missing or network.summary,
            }
        )
    show_rows(rows, ["network", "norm", "position", *PRESETS, "note"], as_json)


@models.command("audit")
def audit_model(
    model: Annotated[str, typer.Argument(help="A network (normbench models list), or path.py:function, which returns a model and inputs.")],
    preset: Annotated[str, typer.Option(help="Size of a network: tiny or full.")] = "tiny",
    seed: Annotated[int, typer.Option(help="Seed of random weights and inputs.")] = 0,
    as_json: AsJson = False,
) -> None:
    """List the norms of a model: place, width, eps, where an RMSNorm rounds, parameters; say when a final norm is missing.

    A norm is what computes one, whatever its class is called. Its place is read off the operators of one forward pass: what it
    reads, and who reads it.
    """
    from ..models.audit import audit
    from ..models.sources import load_subject

    subject = load_subject(model, preset=preset, seed=seed)
    found = audit(subject.model, subject.batch)
    if as_json:
        from dataclasses import asdict

        print_json({"model": subject.label, **asdict(found)})
    else:
        _show(subject.label, found)


def _show(label: str, found: Audit) -> None:
    columns = ("norm", "kind", "place", "calls", "width", "eps", "convention", "parameters")
    show_table(columns, [_row(one) for one in found.norms])
    share = f" ({100 * found.norm_parameters / found.parameters:.2f} %)" if found.parameters else ""
    lines = [
        f"{label}: {len(found.norms)} norms with {found.norm_parameters} of {found.parameters} parameters{share}",
        *(f"no LayerNorm and no RMSNorm: {left.name} ({left.reason})" for left in found.left),
        *found.remarks,
    ]
    for line in lines:
        typer.echo(line)


def _row(one: AuditedNorm) -> tuple[Any, ...]:
    place = "?" if one.place is None else one.place.value
    calls = "?" if one.calls is None else one.calls
    eps = MACHINE if one.eps is None else f"{one.eps:g}"
    return one.name, one.norm.value, place, calls, one.width, eps, one.convention.value, one.parameters
