"""`normbench inspect`: the machine code of kernels, compiled for GPUs that are not here, its budgets and what changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..inspection.scope import ARCHITECTURES, COLS, CONVENTIONS, DTYPES, NORMS, PASSES, ROWS
from ..text.choices import HELP
from .show import EXIT_FAILED, AsJson, print_json, table_of

if TYPE_CHECKING:
    from ..cases.case import Case
    from ..inspection.budget import Breach
    from ..inspection.difference import Difference
    from ..inspection.figures import Inspection

__all__ = ["inspect"]

UNLIMITED = 1000
"""Characters of a line that goes to no terminal: more than a row of any table takes."""


def inspect(
    provider: Annotated[str, typer.Option(help="Whose kernels: names, or paths of .py files that define one.")] = "triton",
    arch: Annotated[str, typer.Option(help="Architectures to compile for; no GPU is needed.")] = ",".join(ARCHITECTURES),
    kernel: Annotated[str, typer.Option(help="Only kernels whose name fits this pattern, such as '*backward*'.")] = "*",
    case: Annotated[str, typer.Option(help="Case ids instead of norm, pass, dtype, convention, cols and rows.")] = "",
    norm: Annotated[str, typer.Option(help="Norms, with a residual (add_) or without.")] = ",".join(NORMS),
    pass_: Annotated[str, typer.Option("--pass", help=HELP["pass_"])] = ",".join(PASSES),
    dtype: Annotated[str, typer.Option(help=HELP["dtype"])] = ",".join(DTYPES),
    convention: Annotated[str, typer.Option(help="torch, llama, gemma; the last two are for rms_norm only.")] = ",".join(CONVENTIONS),
    cols: Annotated[str, typer.Option(help="Widths.")] = ",".join(map(str, COLS)),
    rows: Annotated[int, typer.Option(help="Rows of the tensors that launches are seen with.")] = ROWS,
    budget: Annotated[bool, typer.Option("--budget", help="Print broken budgets alone, and exit 1 if there are any.")] = False,
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Compare two files of --json instead; exit 1 if any machine code changed, appeared or disappeared."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile kernels for GPUs that are not here and show registers, spills, width of accesses and a hash of the machine code."""
    if diff is not None:
        _show_difference(*diff, as_json=as_json)
        return
    from ..host.threads import available_cores
    from ..inspection.budget import broken_budgets
    from ..inspection.survey import Survey, survey
    from ..screen.bar import counting
    from ..text.choices import split

    question = Survey(
        providers=tuple(split(provider)),
        cases=_cases(case, norm, pass_, dtype, convention, cols, rows),
        architectures=tuple(split(arch)),
        kernels=kernel,
        workers=available_cores(),
    )
    with counting() as observe:
        found = survey(question, observe)
    broken = [breach for variant in found.variants for breach in broken_budgets(variant)]
    _show(found, broken, budget=budget, as_json=as_json)
    if budget and broken:
        raise typer.Exit(EXIT_FAILED)


def _cases(case: str, norm: str, pass_: str, dtype: str, convention: str, cols: str, rows: int) -> tuple[Case, ...]:
    """Return the cases that the words ask for. Raises UsageError naming the first that does not fit."""
    from ..inspection.survey import cases_in_scope
    from ..job.selection import cases_by_id
    from ..text.choices import split

    if case:
        return cases_by_id(case)
    for width in split(cols):
        if not width.isdecimal():
            raise UsageError(f"cols {width!r} is no width: give whole numbers such as 4096,8192")
    return cases_in_scope(
        norms=split(norm),
        passes=split(pass_),
        dtypes=split(dtype),
        conventions=split(convention),
        cols=[int(width) for width in split(cols)],
        rows=rows,
    )


def _show(found: Inspection, broken: list[Breach], *, budget: bool, as_json: bool) -> None:
    import msgspec

    if as_json:
        result: dict[str, Any] = msgspec.to_builtins(found, str_keys=True)
        print_json(result | {"broken": msgspec.to_builtins(broken)} if budget else result)
        return
    from ..inspection.tables import breach_rows, variant_rows

    if not budget:
        _print_table(variant_rows(found.variants))
    elif broken:
        _print_table(breach_rows(broken))
    codes = {variant.figures.code_hash for variant in found.variants if variant.figures}
    typer.echo(f"{len(found.variants)} variants, {len(codes)} of them distinct; {len(broken)} broken budgets")
    for reason in dict.fromkeys(f"{one.provider}: {one.reason}" for one in found.skipped):
        typer.echo(f"not inspected: {reason}")


def _print_table(rows: list[dict[str, str]]) -> None:
    """Print rows as a table; in a file or a pipe, which have no width, every row is one line."""
    from ..screen.terminal import console

    if rows:
        console(UNLIMITED).print(table_of(rows[0], [row.values() for row in rows]))


def _show_difference(before: Path, after: Path, *, as_json: bool) -> None:
    import msgspec

    from ..inspection.difference import compare
    from ..inspection.tables import change_rows

    difference = compare(_read(before), _read(after))
    if as_json:
        print_json(msgspec.to_builtins(difference, str_keys=True))
    else:
        _print_table(change_rows(difference))
        for text in _summary(difference):
            typer.echo(text)
    if not difference.is_empty:
        raise typer.Exit(EXIT_FAILED)


def _summary(difference: Difference) -> Iterator[str]:
    yield (
        f"{len(difference.changed)} variants changed, {len(difference.appeared)} appeared, {len(difference.disappeared)} disappeared, "
        f"{difference.unchanged} are the same"
    )
    for name, (old, new) in difference.versions.items():
        yield f"compiled by different versions of {name}: {old} and {new}"


def _read(path: Path) -> Inspection:
    from ..inspection.figures import decode

    try:
        return decode(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
