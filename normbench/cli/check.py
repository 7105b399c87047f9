"""`normbench check`: every provider against float64, ordinary tensors and adversarial ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from ..text.choices import HELP
from .options import Pass
from .show import EXIT_FAILED, AsJson, print_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..checkup.examiner import Lane
    from ..checkup.plan import Examination
    from ..checkup.verdict import Verdict

__all__ = ["check"]

ALL = "all"
WIDE = 250
"""Characters of a line where the output is no terminal: a row of the table of errors."""


def check(
    provider: Annotated[str, typer.Option(help=f"{HELP['provider']} All that are installed when empty.")] = "",
    grid: Annotated[str, typer.Option(help=HELP["grid"])] = "edges",
    case: Annotated[str, typer.Option(help="Case ids instead of grid, norm, pass and dtype.")] = "",
    norm: Annotated[str, typer.Option(help=f"{HELP['norm']} rms_norm in all weight conventions.")] = ALL,
    pass_: Pass = "forward,forward_backward",
    dtype: Annotated[str, typer.Option(help="float64, float32, bfloat16, float16.")] = ALL,
    values: Annotated[str, typer.Option(help="What the tensors hold: normal, large_mean, huge, zero_rows, nan …")] = ALL,
    layout: Annotated[str, typer.Option(help="How they lie in memory: contiguous, sliced, transposed, dy_expanded …")] = ALL,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N; the first GPU, if there is one, when empty.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the inputs.")] = 0,
    thorough: Annotated[bool, typer.Option("--thorough", help="Spare nobody: not who compiles, not Triton's interpreter.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check outputs and gradients of providers against float64, adversarial inputs included; exit 1 if any is wrong."""
    from ..checkup.examiner import examine, make_lanes
    from ..checkup.table import failure_lines, tables

    examinations = _examinations(grid, case, norm, pass_, dtype, values, layout)
    providers, absent = _providers(provider)
    device = device or _first_device()
    lanes = make_lanes(providers, examinations, device=device, thorough=thorough or bool(case))
    with _bar(lanes) as observe:
        verdicts = examine(lanes, device=device, seed=seed, observe=observe)
    failures = failure_lines(verdicts)
    notes = [f"{', '.join(lane.providers)}: {lane.note}; --thorough takes all" for lane in lanes if lane.note]
    if as_json:
        from ..checkup.verdict import to_json

        found = {"ok": not failures, "device": device, "seed": seed, "notes": notes, "absent": absent}
        print_json(found | {"verdicts": [to_json(one) for one in verdicts]})
    else:
        from ..screen.terminal import console

        console(WIDE).print(tables(verdicts))
        for line in [*(f"not installed: {name} {reason}" for name, reason in absent.items()), *notes, *failures]:
            typer.echo(line)
        judged = sum(one.is_judged for one in verdicts)
        typer.echo(f"{judged} trials judged on {device}: {judged - len(failures)} right, {len(failures)} wrong")
    if failures:
        raise typer.Exit(EXIT_FAILED)


def _examinations(grid: str, case: str, norm: str, pass_: str, dtype: str, values: str, layout: str) -> list[Examination]:
    """Return what the words ask for. Raises UsageError naming the first word that does not fit."""
    from ..cases.adversary import Layout, Values
    from ..cases.case import DType, Pass
    from ..cases.grids import NORM_LABELS
    from ..cases.grids import grid as find_grid
    from ..checkup.plan import of_cases, of_shapes
    from ..job.selection import cases_by_id
    from ..text.words import members, some_of

    chosen_values, chosen_layouts = members(Values, values, "values", every=ALL), members(Layout, layout, "layout", every=ALL)
    if case:
        found = of_cases(cases_by_id(case), values=chosen_values, layouts=chosen_layouts)
    else:
        found = of_shapes(
            find_grid(grid).shapes,
            norm_labels=some_of(NORM_LABELS, norm, "norm", every=ALL),
            passes=members(Pass, pass_, "pass", every=ALL),
            dtypes=members(DType, dtype, "dtype", every=ALL),
            values=chosen_values,
            layouts=chosen_layouts,
        )
    if not found:
        raise UsageError(f"values {values!r} and layout {layout!r} fit none of the cases: name others, or other cases")
    return found


def _providers(text: str) -> tuple[list[str], dict[str, str]]:
    """Return the providers asked for; when none are, all that are installed, and why the others are not."""
    from ..registry import Registry
    from ..text.choices import split

    asked = split(text)
    if asked:
        return asked, {}
    missing = {name: Registry.missing(name) for name in Registry.names()}
    return [name for name, reason in missing.items() if not reason], {name: reason for name, reason in missing.items() if reason}


def _first_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def _bar(lanes: Sequence[Lane]) -> Iterator[Callable[[Verdict], None]]:
    """Show on stderr, where that is a terminal, how many verdicts there are of how many."""
    from ..screen.bar import make_bar, make_screen

    with make_bar(make_screen()) as bar:
        task = bar.add_task("starting processes", total=sum(lane.size for lane in lanes))

        def observe(verdict: Verdict) -> None:
            bar.update(task, advance=1, description=f"{verdict.provider} {verdict.label}")

        yield observe
