"""`normbench models convert`: LayerNorm to RMSNorm in a model or a checkpoint, and what that does to its outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..cases.layers import like_layers
from ..errors import UsageError
from .paths import require_file_place
from .show import AsJson, print_json, show_table

if TYPE_CHECKING:
    from ..models.conversion import Conversion
    from ..models.deviation import Deviation

__all__ = ["convert"]

METHODS = {"unchanged": "unchanged", "copied": "weights copied", "folded": "converted"}


def convert(
    model: Annotated[str, typer.Argument(help="A network (normbench models list), or path.py:function, which returns a model.")],
    checkpoint: Annotated[str, typer.Option(help="Weights for it: a .safetensors file, or a state_dict saved by torch.save.")] = "",
    out: Annotated[str, typer.Option(help="Write the converted state_dict here; .safetensors, or any other suffix for torch.save.")] = "",
    inputs: Annotated[str, typer.Option(help="Keyword arguments of the model, tensors by name in such a file; made up when empty.")] = "",
    preset: Annotated[str, typer.Option(help="Size of a network: tiny or full.")] = "tiny",
    seed: Annotated[int, typer.Option(help="Seed of random weights and inputs.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Convert LayerNorms to RMSNorms: fold centring and biases into linear maps where that is exact; show the error that is left."""
    from ..models.checkpoint import load_into, read_tensors, write_tensors
    from ..models.conversion import convert_model
    from ..models.deviation import measure_conversion
    from ..models.sources import load_subject

    target = Path(out) if out else None
    if target is not None and target.exists():
        raise UsageError(f"--out {out!r} exists: name another file")
    require_file_place("--out", target)
    subject = load_subject(model, preset=preset, seed=seed)
    if checkpoint:
        load_into(subject.model, read_tensors(Path(checkpoint)), f"checkpoint {checkpoint!r}")
    batches = {} if subject.batch is None else {"random": subject.batch}
    if inputs:
        batches["given"] = read_tensors(Path(inputs))
    if not batches:
        raise UsageError(
            f"it is not known what {subject.label} takes: give --inputs, or have the function return (model, keyword arguments)"
        )
    deviations = measure_conversion(subject.model, batches, subject.outputs)
    conversion = convert_model(subject.model, batches)
    if as_json:
        print_json({"model": subject.label, "checkpoint": checkpoint or None, "out": out or None, **_as_json(conversion, deviations)})
    else:
        _show(subject.label, checkpoint, out, conversion, deviations)
    if target is not None:
        write_tensors(target, conversion.model.state_dict())


def _as_json(conversion: Conversion, deviations: tuple[Deviation, ...]) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "exact": conversion.is_exact,
        "norms": [{**asdict(norm), "exact": norm.is_exact} for norm in conversion.norms],
        "untied": conversion.untied,
        "added": conversion.added,
        "kept": conversion.kept,
        "deviations": [asdict(deviation) for deviation in deviations],
    }


def _show(label: str, checkpoint: str, out: str, conversion: Conversion, deviations: tuple[Deviation, ...]) -> None:
    exact = sum(norm.is_exact for norm in conversion.norms)
    weights = f", weights of {checkpoint}" if checkpoint else ""
    counts = f"{exact} exactly, {len(conversion.norms) - exact} approximately"
    typer.echo(f"{label}{weights}: {len(conversion.norms)} LayerNorms converted to RMSNorms, {counts}")
    show_table(["norms", "number", "centring", "bias", "result"], _norm_rows(conversion))
    notes = [f"not tied any more: {name}" for name in conversion.untied]
    notes += [f"new parameter, which the model's class does not make by itself: {name}" for name in conversion.added]
    if conversion.kept:
        notes.append(f"RMSNorms before, left as they were: {len(conversion.kept)}")
    for line in ("", *notes, *[""] * bool(notes), "difference from the outputs of the model, computed in float64, relative (largest):"):
        typer.echo(line)
    show_table(["inputs", "computed in", *METHODS.values()], _deviation_rows(deviations))
    if out:
        typer.echo(f"wrote {out}")


def _norm_rows(conversion: Conversion) -> list[list[Any]]:
    """Return a row for all norms that differ by the number of their layer only."""
    numbers: dict[tuple[str, ...], int] = {}
    for norm in conversion.norms:
        row = (like_layers(norm.name), norm.centring, norm.bias, f"approximate: {'; '.join(norm.reasons)}" if norm.reasons else "exact")
        numbers[row] = numbers.get(row, 0) + 1
    return [[row[0], number, *row[1:]] for row, number in numbers.items()]


def _deviation_rows(deviations: tuple[Deviation, ...]) -> list[list[Any]]:
    def text(deviation: Deviation | None) -> str:
        if deviation is None:
            return "-"
        if deviation.relative is None or deviation.largest is None:
            return "not finite"
        return f"{deviation.relative:.1e} ({deviation.largest:.1e})"

    found = {(one.inputs, one.dtype, one.method): one for one in deviations}
    places = dict.fromkeys((one.inputs, one.dtype) for one in deviations)
    return [[*place, *(text(found.get((*place, method))) for method in METHODS)] for place in places]
