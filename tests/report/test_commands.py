"""Commands that measure again: typed as printed they ask for what the run had, with its budget and its seed, in every tier."""

from __future__ import annotations

import shlex

import pytest
import synthetic
import throughput_runs
from typed import typed

from normbench.cases.case import Case, Norm
from normbench.cases.conditions import Conditions, Parallel
from normbench.job.request import make_request
from normbench.records.record import NO_NORM
from normbench.report.commands import run_command, scope_command
from normbench.report.companies import by_company
from normbench.report.networks import network_sections
from normbench.report.tables import by_scope
from normbench.report.throughput import throughput_sections
from normbench.results.attribution import attribute
from normbench.results.derived import derive_results
from normbench.text.choices import Choices

CASE = Case.make("rms_norm", "forward", (8, 256, 1024), "float32")
PLAN = {"budget_s": 3.5, "timeout_s": 120.0, "sustain_s": 0.5}
INFO = synthetic.info(seed=7, settings={"plan": PLAN})
TIMES = {("layer_norm", "aten"): 1e-3, ("rms_norm", "aten"): 0.9e-3}


def of_op(records, info=INFO):
    (grid,) = by_scope(derive_results(records))
    return scope_command(info, grid)


def of_network(records, info=INFO):
    results = derive_results(records)
    (section,) = network_sections(info, results, attribute(results))
    return section.command


def of_throughput(records, info=INFO):
    (section,) = throughput_sections(info, by_company(derive_results(records)))
    return section.command


def choices_of(command):
    program, subcommand, *words = shlex.split(command)
    assert (program, subcommand) == ("normbench", "run")
    return typed(words)


def network(pass_="forward", times=TIMES):
    return synthetic.network(pass_, times=times, without=0.8e-3)


def served(*sizes, **fields):
    return [record for size in sizes for record in throughput_runs.group("decode", size=size, **fields)]


RUNS = {
    "op": (of_op, synthetic.group(CASE)),
    "op, cases": (of_op, synthetic.group(Case.make("rms_norm", "forward", (4, 8), "float32", weight=False))),
    "model": (of_network, network()),
    "model, one norm": (of_network, network(times={("rms_norm", "aten"): 1e-3, ("rms_norm", "eager"): 2e-3})),
    "model, two passes": (of_network, network() + network("forward_backward")),
    "throughput": (of_throughput, served((1, 64), (4, 64))),
    "throughput, cases": (of_throughput, served((1, 64), (1, 32))),
    "throughput, options": (of_throughput, throughput_runs.group("train", case={"accumulation": 4, "checkpointing": True})),
}


@pytest.mark.parametrize(("command", "records"), RUNS.values(), ids=RUNS)
def test_command_asks_for_what_was_measured_as_it_was_measured(command, records):
    choices = choices_of(command(records))
    again = make_request(choices, command=[])
    assert {case.id for case in again.cases} == {one.case_id for one in records}
    assert {condition.id for condition in again.conditions()} == {one.conditions.id for one in records}
    assert set(again.providers) == {one.provider for one in records if one.role == "provider"}
    assert (choices.budget, choices.seed, choices.timeout) == (3.5, 7, 120.0)
    assert choices.sustain == (0.5 if again.plan.sustain_s else Choices().sustain)


def test_norm_of_a_control_alone_is_not_asked_for():
    records = [one for one in network() if one.provider == NO_NORM or one.case.norm is Norm.RMS_NORM]
    assert {one.case.norm for one in records} == set(Norm)
    assert choices_of(of_network(records)).norm == "rms_norm"


@pytest.mark.parametrize("command", [of_op, of_network, of_throughput])
def test_provider_files_are_named_as_they_were(command):
    records = {of_op: synthetic.group(CASE), of_network: network(), of_throughput: served((1, 64))}[command]
    info = synthetic.info(command=["normbench", "run", "--provider=aten,./my kernel.py"])
    assert choices_of(command(records, info)).provider == "aten,./my kernel.py"


def test_command_says_defaults_which_may_be_others_one_day():
    assert of_op(synthetic.group(CASE), synthetic.info(settings={"plan": {"budget_s": 3.0}})) == (
        "normbench run --grid 8x256x1024 --provider eager,aten,compile --norm rms_norm --pass forward --dtype float32 "
        "--device cpu --threads 2 --cache warm --pages reused --budget 3 --seed 0"
    )


def test_several_processes_are_asked_for():
    together = Conditions(device="cpu", threads=1, processes=2, parallel=Parallel.FSDP)
    choices = choices_of(of_throughput(throughput_runs.group("train", conditions=together)))
    assert (choices.nproc, choices.parallel, choices.threads) == (2, "fsdp", 1)


def test_run_command_hides_where_the_program_lies():
    assert run_command(synthetic.info(command=["/home/someone/bin/normbench", "run"])) == "normbench run"
    assert run_command(synthetic.info(command=[])) == ""
