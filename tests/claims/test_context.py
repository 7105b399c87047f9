"""Studies on disk come before studies run now, records of runs before measuring; what is too long or too large is said."""

from __future__ import annotations

import pytest
import synthetic

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.cases.model_case import ModelCase
from normbench.cases.throughput_case import ThroughputCase
from normbench.claims import context as module
from normbench.claims.context import Context
from normbench.records.record import Status
from normbench.storage.store import RunWriter
from normbench.studies.conduct import conduct
from normbench.studies.drift import DRIFT
from normbench.studies.study import Scale


@pytest.fixture
def said():
    return []


@pytest.fixture
def context(tmp_path, said):
    return Context(studies=tmp_path / "studies", root=tmp_path / "runs", quick=True, say=said.append)


def silent(*_):
    pass


def test_study_on_disk_is_read(tmp_path, context, said):
    kept = conduct(DRIFT, Scale(seeds=1), tmp_path / "studies" / "drift", resume=False, jobs=1, started=silent, done=silent)
    assert context.observed("drift") == ({}, kept)
    assert said == []


def test_quick_study_is_run_once(context, said):
    assert context.observed("drift") is context.observed("drift")
    assert said == ["study drift"]


def test_long_study_is_waited_for(context):
    assert "normbench study collapse" in context.observed("collapse")


def test_quick_evaluation_measures_no_network_and_no_large_tensor(context):
    network = ModelCase.make("gpt2", "tiny", "layer_norm", "forward", (2, 64))
    assert "model tier" in context.results([(network,)], ("aten",))
    large = Case.make("layer_norm", "forward", (32, 1024, 4096), "float32")
    assert "too large for --quick" in context.results([(large,)], ("aten",))


def test_what_to_run_is_said_where_quick_evaluation_measures_nothing(context):
    networks = [
        tuple(ModelCase.make(name, "tiny", norm, "forward", (2, 64)) for norm in ("layer_norm", "rms_norm")) for name in ("gpt2", "bert")
    ]
    wanted = "name the run of `normbench run --tier model --network gpt2,bert --preset tiny --provider aten --pass forward "
    assert f"evaluate without --quick, or {wanted}--device cpu --threads 2` by --run" in context.results(networks, ("aten",), threads=2)
    served = [(ThroughputCase.make("gpt2", "tiny", "rms_norm", "decode", (batch, 64)),) for batch in (1, 4)]
    assert "--tier throughput --network gpt2 --preset tiny --provider aten --mode decode --batch 1,4" in context.results(served, ("aten",))
    large = Case.make("layer_norm", "forward", (32, 1024, 4096), "float32")
    assert f"normbench run --case {large.id} --provider aten,eager " in context.results([(large,)], ("aten", "eager"))


def test_runs_that_were_named_are_said_to_lack_the_case(tmp_path, said):
    with RunWriter.create("seed", command=[], seed=0, planned=1, settings={}, machine={}, versions={}, root=tmp_path) as writer:
        writer.append(synthetic.record(Case.make("rms_norm", "forward", (4, 128), "float32")))
    context = Context(studies=tmp_path, runs=[writer.path.name], root=tmp_path, quick=True, say=said.append)
    large = Case.make("layer_norm", "forward", (32, 1024, 4096), "float32")
    assert f"the runs named by --run have no {large.id} by aten at cpu/1t/warm/reused; " in context.results([(large,)], ("aten",))


LAYER, RMS = (Case.make(norm, "forward", (8, 64), "float32") for norm in ("layer_norm", "rms_norm"))
ONE_THREAD = Conditions(device="cpu", threads=1)
TIMED = {case: synthetic.group(case, conditions=ONE_THREAD) for case in (LAYER, RMS)}
CUT = [synthetic.record(case, "aten", conditions=ONE_THREAD, status=Status.INTERRUPTED, reason="stopped") for case in (LAYER, RMS)]


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Return the cases that are measured instead of measuring them: how each call asked for them."""
    asked = []

    def execute(request):
        asked.append(request)
        return write(tmp_path, "claims", *(one for case in request.cases for one in TIMED[case])), True

    monkeypatch.setattr(module, "execute", execute)
    return asked


def write(root, label, *records, machine="here"):
    """Write a run and return its path."""
    made = {"machine": {"cpu_model": machine}, "versions": {}, "settings": {}}
    with RunWriter.create(label, command=[], seed=0, planned=1, root=root, **made) as writer:
        writer.append(*records)
    return str(writer.path)


def with_runs(tmp_path, *runs, quick=False):
    return Context(studies=tmp_path, runs=runs, root=tmp_path, quick=quick, say=lambda text: None)


def test_case_is_measured_once_and_then_known(context, measured, said):
    ((first,),) = [[one for one in group if one.record.provider == "aten"] for group in context.results([(LAYER,)], ("aten", "eager"))]
    assert first.time is not None
    context.results([(LAYER,)], ("aten", "eager"))
    (request,) = measured
    assert (request.cases, request.providers, request.threads) == ((LAYER,), ("aten", "eager"), 1)
    assert said == [f"measuring {LAYER.id}"]


def test_what_fails_here_is_not_measured_again(context, measured, monkeypatch):
    monkeypatch.setitem(TIMED, LAYER, CUT[:1])
    for _ in range(2):
        context.results([(LAYER,)], ("aten",))
    assert len(measured) == 1


def test_records_of_a_run_are_used_and_nothing_is_measured(tmp_path, measured):
    context = with_runs(tmp_path, write(tmp_path, "a", *TIMED[LAYER]), write(tmp_path, "b", *TIMED[RMS]))
    assert all(context.results([(LAYER,), (RMS,)], ("aten",)))
    assert measured == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_order_of_runs_does_not_decide_whether_there_is_a_time(tmp_path, measured, order):
    runs = [write(tmp_path, "cut", *CUT), write(tmp_path, "whole", *TIMED[LAYER], *TIMED[RMS])]
    groups = with_runs(tmp_path, *(runs[place] for place in order)).results([(LAYER,), (RMS,)], ("aten",))
    assert [one.time is not None for group in groups for one in group if one.record.provider == "aten"] == [True, True]
    assert measured == []


def test_what_a_run_was_stopped_before_is_measured(tmp_path, measured):
    with_runs(tmp_path, write(tmp_path, "cut", *CUT)).results([(LAYER,), (RMS,)], ("aten",))
    assert [request.cases for request in measured] == [(LAYER, RMS)]


def test_cases_of_two_machines_are_measured_together_here(tmp_path, measured):
    context = with_runs(tmp_path, write(tmp_path, "a", *TIMED[LAYER], machine="fast"), write(tmp_path, "b", *TIMED[RMS], machine="old"))
    context.results([(LAYER,), (RMS,)], ("aten",))
    assert [request.cases for request in measured] == [(LAYER, RMS)]


def test_what_runs_of_two_machines_have_is_not_said_to_be_lacking(tmp_path):
    networks = synthetic.network(times={("layer_norm", "aten"): 2e-3, ("rms_norm", "aten"): 1e-3})
    halves = [
        write(tmp_path, norm, *(one for one in networks if one.case.norm == norm), machine=norm) for norm in ("layer_norm", "rms_norm")
    ]
    said = with_runs(tmp_path, *halves, quick=True).results([tuple(one.case for one in networks)], ("aten",), threads=2)
    assert "what the runs named by --run have of model/gpt2-tiny/layer_norm/forward/2x64/float32 by aten at cpu/2t/warm/reused was" in said
