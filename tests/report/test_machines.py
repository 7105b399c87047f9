"""Records of several machines are shown side by side and never compared."""

from __future__ import annotations

import msgspec
import synthetic

from normbench.cases.case import Case
from normbench.quantities.units import TIMES
from normbench.report.answers import norm_ratios
from normbench.report.machines import machine_tables
from normbench.report.markdown import render_markdown
from normbench.report.tables import by_scope
from normbench.results.derived import derive_results
from normbench.storage.stored_run import Machine

RMS = Case.make("rms_norm", "forward", (8, 256, 1024), "float32")
LAYER = Case.make("layer_norm", "forward", (8, 256, 1024), "float32")
OTHER = synthetic.MACHINE | {"cpu_model": "Another CPU 1"}
MACHINES = {
    "aaaaaaaaaaaa": Machine(machine=synthetic.MACHINE, versions=synthetic.VERSIONS),
    "bbbbbbbbbbbb": Machine(machine=OTHER, versions=synthetic.VERSIONS),
}


def on(machine, case):
    return [msgspec.structs.replace(one, machine=machine, group=f"{one.group} {machine}") for one in synthetic.group(case)]


def test_each_machine_has_tables_of_its_own_machine_by_machine():
    grids = by_scope(derive_results([*on("bbbbbbbbbbbb", RMS), *on("aaaaaaaaaaaa", RMS), *on("aaaaaaaaaaaa", LAYER)]))
    assert [grid.scope.machine for grid in grids] == ["aaaaaaaaaaaa", "aaaaaaaaaaaa", "bbbbbbbbbbbb"]


def test_side_by_side_are_times_without_a_ratio():
    results = derive_results([*on("aaaaaaaaaaaa", RMS), *on("bbbbbbbbbbbb", RMS), *on("bbbbbbbbbbbb", LAYER)])
    ((title, table),) = machine_tables(by_scope(results))
    assert title.startswith("rms_norm forward")
    assert table.header[1:] == ["aaaaaaaaaaaa", "bbbbbbbbbbbb"]
    assert [row[0] for row in table.rows] == [f"8x256x1024, {name}" for name in ("eager", "aten", "compile")]
    assert not any(TIMES in cell for row in table.rows for cell in row)


def test_one_machine_has_nothing_beside_it():
    assert machine_tables(by_scope(derive_results(synthetic.group(RMS)))) == []


def test_norms_of_two_machines_have_no_ratio():
    assert norm_ratios(derive_results([*on("aaaaaaaaaaaa", RMS), *on("bbbbbbbbbbbb", LAYER)])) == []
    assert norm_ratios(derive_results([*on("aaaaaaaaaaaa", RMS), *on("aaaaaaaaaaaa", LAYER)]))


def test_report_names_every_machine():
    run = synthetic.run([*on("aaaaaaaaaaaa", RMS), *on("bbbbbbbbbbbb", RMS)], machine={}, versions={}, machines=MACHINES)
    text = render_markdown(run, derive_results(run.records), [])
    assert "**Machine aaaaaaaaaaaa**: Example CPU 9000" in text
    assert "**Machine bbbbbbbbbbbb**: Another CPU 1" in text
    assert "## Machines side by side" in text
    assert "reused pages; machine bbbbbbbbbbbb" in text
