"""A run in the terminal: one table per scope, then what was not measured. Returns renderables; printing is the caller's."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ..cases.shape import shape_text
from ..quantities.units import DASH, TIMES, count, join_words, number, percent, time_text, time_unit
from ..results.attribution import attribute, norms_of_networks
from ..results.derived import BASELINE, Result, derive_results
from ..results.scaling import scaling_note
from ..screen.terminal import FittingTable
from ..storage.stored_run import Run
from .answers import scope_answer
from .companies import by_company
from .findings import unmeasured
from .header import state_line
from .networks import NetworkSection, network_answers, network_sections
from .tables import NO_DIFFERENCE, ScopeResults, Table, by_scope, fastest
from .throughput import throughput_sections
from .throughput_answers import norm_gains, throughput_answers

__all__ = ["summary_table"]


def summary_table(run: Run) -> RenderableType:
    """Return a run's rates, times and speed-ups as a rich renderable, with reasons for what has none and the state of the run."""
    results = derive_results(run.records)
    parts: list[RenderableType] = []
    companies = by_company(results)
    for told in throughput_sections(run.info, companies):
        parts.append(_rich_table(told.title, told.circumstances, told.rates, words=3))
        if told.scaling is not None:
            parts.append(_rich_table(told.title, "together, beside one process alone", told.scaling, words=2))
    if shared := scaling_note(run.records):
        parts.append(Text(shared))
    parts += [Text(f"{_plain(sentence)}.") for sentence in (*throughput_answers(companies), *norm_gains(companies))]
    beside = norms_of_networks(results)
    found = attribute(results)
    sections = network_sections(run.info, results, found)
    for section in sections:
        parts += _network_tables(section)
    parts += [Text(f"{_plain(sentence)}.") for sentence in network_answers([one for one in found if one.is_of_norm])]
    for grid in by_scope(one for one in results if one.record.case_id not in beside):
        if grid.providers:
            parts += [_scope_table(grid), Text(f"{_plain(scope_answer(grid).headline)}.\n")]
    for one in unmeasured(results):
        records = count(len(one.reasons), "record")
        parts.append(Text.assemble((one.status, "bold yellow"), f" {join_words(one.providers)}, {records}: {one.reason}"))
    parts.append(Text(_plain(state_line(run)), style="green" if run.is_complete else "bold red"))
    return Group(*parts)


def _network_tables(section: NetworkSection) -> list[FittingTable]:
    """Return the times of a network, and what changes of its norms save."""
    contents = ((section.circumstances, section.times), ("saved of a pass", section.savings))
    return [_rich_table(section.title, caption, content, words=2) for caption, content in contents if content is not None]


def _rich_table(title: str, caption: str, content: Table, *, words: int) -> FittingTable:
    """Return a table of a report for a terminal; the first `words` columns name what a row is of."""
    table = FittingTable(title=title, caption=caption, title_justify="left", caption_justify="left")
    for place, name in enumerate(content.header):
        table.add_column(Text(_unescaped(name)), justify="left" if place < words else "right")
    for row in content.rows:
        table.add_row(*(Text(_unescaped(cell)) for cell in row))
    return table


def _unescaped(text: str) -> str:
    return text.replace("<br>", " ").replace("\\", "").replace("**", "")


def _scope_table(grid: ScopeResults) -> FittingTable:
    unit = time_unit(one.time.estimate for one in grid.cells.values() if one.time)
    table = FittingTable(
        title=grid.scope.title, caption=f"{grid.scope.circumstances}; {unit} per call", title_justify="left", caption_justify="left"
    )
    table.add_column("shape", no_wrap=True)
    for name in grid.providers:
        table.add_column(Text(name), justify="right")
    for shape in grid.shapes:
        best = fastest(grid.row(shape))
        cells = [_cell(grid.cells.get((shape, name)), unit, bold=name in best) for name in grid.providers]
        table.add_row(shape_text(shape), *cells)
    return table


def _cell(result: Result | None, unit: str, *, bold: bool) -> Text:
    if result is None:
        return Text(DASH, style="dim")
    if result.time is None:
        return Text("no time" if result.problem else result.record.status.value, style="yellow")
    half = result.time.half_width
    text = Text(time_text(result.time.estimate, unit), style="bold" if bold else "")
    spread = "?" if half is None else percent(half) if half < 1 else "100 % or more"
    text.append(f" ±{spread}", style="dim not bold")
    if result.record.provider == BASELINE:
        return text
    if result.speedup is None:
        return text.append(f"  {result.speedup_missing}", style="dim not bold")
    told = not result.speedup.contains(1.0)
    colour = "green" if result.speedup.estimate > 1 else "red"
    shown = f"  {number(result.speedup.estimate)}{TIMES}" + ("" if told else NO_DIFFERENCE)
    return text.append(shown, style=colour if told else "dim not bold")


def _plain(text: str) -> str:
    return text.replace("**", "").replace("`", "")
