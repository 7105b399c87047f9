"""The report as Markdown, from a template that holds all of its prose. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import jinja2
import msgspec

from ..results.attribution import Attribution, norms_of_networks
from ..results.derived import Result
from ..storage.stored_run import Run
from ..text.markdown import escape, laid_out
from .answers import NormRatio, norm_answers, norm_ratio_table, norm_ratios, scope_answer
from .commands import run_command, scope_command
from .companies import by_company
from .findings import first_call_table, oddities, peak_gbps, unmeasured
from .header import facts, state_line
from .machines import machine_tables
from .networks import network_answers, network_sections, networks_circumstances
from .tables import (
    Scope,
    ScopeResults,
    Table,
    accuracy_table,
    allocation_table,
    bandwidth_table,
    by_scope,
    memory_table,
    on_machine,
    time_table,
)
from .throughput import throughput_notes, throughput_sections
from .throughput_answers import norm_gains, throughput_answers

__all__ = ["Picture", "render_markdown", "table_text"]


class Picture(msgspec.Struct, frozen=True):
    """Name an image file beside the report and say what it shows; without a file `caption` says why there is none."""

    file: str | None
    caption: str


def render_markdown(run: Run, results: Sequence[Result], pictures: Sequence[Picture], found: Sequence[Attribution] = ()) -> str:
    """Return the report's text. Every record of the run appears in it, with figures or with the reason why it has none."""
    beside = norms_of_networks(results)
    asked = [one for one in results if one.record.case_id not in beside]
    grids = [grid for grid in by_scope(asked) if grid.providers]
    alone = [grid for grid in by_scope(one for one in results if one.record.case_id in beside) if grid.providers]
    companies = by_company(results)
    throughput = throughput_sections(run.info, companies)
    ratios = norm_ratios(asked)
    peaks = {"": peak_gbps(run.info.machine)} | {name: peak_gbps(one.machine) for name, one in run.info.machines.items()}
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"table": table_text, "escape": escape}
    text = environment.get_template("report.md.j2").render(
        run=run,
        state=state_line(run),
        facts=facts(run, results),
        answers=[scope_answer(grid) for grid in grids],
        norm_answers=norm_answers(ratios),
        pictures=pictures,
        sections=[_section(run, grid, peaks.get(grid.scope.machine)) for grid in grids],
        machine_tables=machine_tables(grids),
        alone=[(grid.scope, *time_table(grid)) for grid in alone],
        norm_tables=_norm_tables(ratios),
        first_calls=first_call_table(results),
        unmeasured=unmeasured(results),
        oddities=[
            sentence + on_machine(name)
            for name, peak in peaks.items()
            for sentence in oddities([one for one in results if one.record.machine == name], peak)
        ],
        circumstances=list(
            dict.fromkeys(
                [
                    *(grid.scope.circumstances for grid in grids),
                    *networks_circumstances(results),
                    *(one.circumstances for one in throughput),
                ]
            )
        ),
        rate_answers=throughput_answers(companies),
        norm_gains=norm_gains(companies),
        throughput=throughput,
        throughput_notes=throughput_notes(throughput),
        norm_changes=network_answers([one for one in found if one.is_of_norm]),
        provider_changes=network_answers([one for one in found if not one.is_of_norm]),
        networks=network_sections(run.info, results, found),
        command=run_command(run.info),
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _section(run: Run, grid: ScopeResults, peak: float | None) -> dict[str, Any]:
    unit, times = time_table(grid)
    return {
        "scope": grid.scope,
        "unit": unit,
        "times": times,
        "bandwidth": bandwidth_table(grid, peak),
        "accuracy": accuracy_table(grid),
        "allocation": allocation_table(grid),
        "memory": memory_table(grid),
        "command": scope_command(run.info, grid),
    }


def _norm_tables(ratios: Sequence[NormRatio]) -> list[tuple[Scope, Table]]:
    scopes = dict.fromkeys(one.scope for one in ratios)
    return [(scope, norm_ratio_table([one for one in ratios if one.scope == scope])) for scope in scopes]


def table_text(table: Table) -> str:
    """Return a table in Markdown, the first column to the left and figures to the right."""
    return "\n".join(laid_out(table.header, table.rows))
