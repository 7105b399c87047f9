"""Studies on disk come before studies run now, records of runs before measuring; what is too long or too large is said."""

from __future__ import annotations

import pytest
import synthetic

from normbench.case import Case
from normbench.claims import context as module
from normbench.claims.context import Context
from normbench.model_case import ModelCase
from normbench.store import RunWriter
from normbench.studies.conduct import conduct
from normbench.studies.drift import DRIFT
from normbench.studies.study import Scale
from normbench.throughput_case import ThroughputCase


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
    assert "model tier" in context.results([network], ("aten",))
    large = Case.make("layer_norm", "forward", (32, 1024, 4096), "float32")
    assert "too large for --quick" in context.results([large], ("aten",))


def test_what_to_run_is_said_where_quick_evaluation_measures_nothing(context):
    networks = [ModelCase.make(name, "tiny", norm, "forward", (2, 64)) for name in ("gpt2", "bert") for norm in ("layer_norm", "rms_norm")]
    wanted = "name the run of `normbench run --tier model --network gpt2,bert --preset tiny --pass forward --provider aten --device cpu "
    assert f"evaluate without --quick, or {wanted}--threads 2` by --run" in context.results(networks, ("aten",), threads=2)
    served = [ThroughputCase.make("gpt2", "tiny", "rms_norm", "decode", (batch, 64)) for batch in (1, 4)]
    assert "--tier throughput --network gpt2 --preset tiny --mode decode --batch 1,4 --provider aten" in context.results(served, ("aten",))
    large = Case.make("layer_norm", "forward", (32, 1024, 4096), "float32")
    assert f"normbench run --case {large.id} --provider aten,eager " in context.results([large], ("aten", "eager"))


def test_runs_that_were_named_are_said_to_lack_the_case(tmp_path, said):
    with RunWriter.create("seed", command=[], seed=0, planned=1, settings={}, machine={}, versions={}, root=tmp_path) as writer:
        writer.append(synthetic.record(Case.make("rms_norm", "forward", (4, 128), "float32")))
    context = Context(studies=tmp_path, runs=[writer.path.name], root=tmp_path, quick=True, say=said.append)
    large = Case.make("layer_norm", "forward", (32, 1024, 4096), "float32")
    assert f"the runs named by --run have no {large.id} by aten at cpu/1t/warm/reused; " in context.results([large], ("aten",))


def test_case_is_measured_once_and_then_known(context, monkeypatch, tmp_path, said):
    case = Case.make("layer_norm", "forward", (8, 64), "float32")
    asked = []

    def execute(request):
        asked.append(request)
        return tmp_path, True

    monkeypatch.setattr(module, "execute", execute)
    monkeypatch.setattr(module, "read_run", lambda path: type("Run", (), {"records": ()}))
    context.results([case], ("aten", "eager"), threads=1)
    (request,) = asked
    assert (request.cases, request.providers, request.threads) == ((case,), ("aten", "eager"), 1)
    assert said == [f"measuring {case.id}"]
