"""An arm is called by itself for a while: every call counts, and what the device went through is told or has a reason."""

from __future__ import annotations

import msgspec
import pytest
import torch

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.cases.throughput_case import ThroughputCase
from normbench.cases.tiers import AnyCase
from normbench.host.energy import EnergyCounter
from normbench.measure import sustain as sustain_module
from normbench.measure.process import OutOfMemory
from normbench.measure.servers import Servers
from normbench.measure.sustain import CallQueue, SustainTask, Tally, call_for
from normbench.records.measurement import Sustained

from .clockwork import FakeTimer

RMS = Case.make("rms_norm", "forward", (8, 64), "float32")
CPU = Conditions(device="cpu", threads=1)

PROVIDERS = """
import torch
import torch.nn.functional as F
import normbench

def rms(x, weight, eps):
    return F.rms_norm(x, x.shape[-1:], weight, eps)

@normbench.provider("in_place", norms=["rms_norm"], mutates=["x"])
def in_place(x, weight, bias, residual, eps):
    assert x.abs().max() < 100, "was not restored"
    x.mul_(1000)
    return rms(x, weight, eps)

@normbench.provider("needs_too_much", norms=["rms_norm"])
def needs_too_much(x, weight, bias, residual, eps):
    return torch.empty(2**60)

@normbench.provider("needs_gradients", norms=["rms_norm"])
def needs_gradients(x, weight, bias, residual, eps):
    assert torch.is_grad_enabled() == x.requires_grad
    assert torch.get_num_threads() == 1
    return rms(x, weight, eps)
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sustain")
    (folder / "own.py").write_text(PROVIDERS)
    specs = ("aten", *(f"{folder}/own.py:{name}" for name in ("in_place", "needs_too_much", "needs_gradients")))
    found = Servers(specs, device="cpu", log=folder / "log", timeout_s=120)
    found.specs = {spec.rpartition(":")[2]: spec for spec in specs}
    yield found
    found.close()


def run(servers, case: AnyCase, arm: str, seconds: float) -> Sustained:
    task = SustainTask(case=case, conditions=CPU, arm=arm, seconds=seconds, seed=0)
    (result,) = servers.run("normbench.measure.sustain:sustain", task)
    assert isinstance(result, Sustained)
    # It can be kept: strict JSON there and back.
    assert msgspec.json.decode(msgspec.json.encode(result), type=Sustained) == result
    assert {len(values) for values in result.series.values()} == {len(result.at_s)}
    for name in ("clock_mhz", "temperature_c", "power_w"):
        assert (name in result.series) != (name in result.reasons)
    assert (result.energy_j is None) == ("energy_j" in result.reasons) == (result.energy_source is None)
    return result


def test_a_norm_is_called_for_the_time_that_was_asked_for(servers):
    result = run(servers, RMS, "aten", 0.5)
    assert result.duration_s >= 0.5
    assert result.calls > 1
    calls = result.series["calls"]
    assert len(calls) >= 1
    assert list(calls) == sorted(calls)
    assert 0 < calls[0] <= calls[-1] <= result.calls
    assert 0 < result.series["ended_s"][0] <= result.series["ended_s"][-1] <= result.duration_s


def test_no_time_at_all_is_one_call_and_one_moment(servers):
    result = run(servers, RMS, "aten", 0.0)
    assert result.calls == 1
    assert result.duration_s > 0
    assert len(result.at_s) == 1


def test_input_that_is_overwritten_is_restored_before_each_call(servers):
    assert run(servers, RMS, servers.specs["in_place"], 0.02).calls > 1


@pytest.mark.parametrize("pass_", ["forward", "backward", "forward_backward"])
def test_the_process_is_set_up_as_the_case_and_its_conditions_say(servers, pass_):
    case = Case.make("rms_norm", pass_, (8, 64), "float32")
    assert run(servers, case, servers.specs["needs_gradients"], 0.01).calls >= 1


def test_tensors_that_do_not_fit_are_out_of_memory(servers):
    with pytest.raises(OutOfMemory, match="allocate memory"):
        run(servers, RMS, servers.specs["needs_too_much"], 0.01)


@pytest.fixture(scope="module")
def networks(servers):
    """Have the server import what networks are made of: it takes seconds, which each task would spend again."""
    servers.prepare("normbench.measure.ahead:load_networks", (ThroughputCase.make("gpt2", "tiny", "rms_norm", "train", (1, 16)),))
    return servers


@pytest.mark.parametrize("mode", ["train", "prefill", "decode"])
def test_training_and_serving_are_called_on_and_on(networks, mode):
    case = ThroughputCase.make("gpt2", "tiny", "rms_norm", mode, (1, 16))
    # A decode writes 4 tokens and begins again: more calls than that have to be possible.
    assert run(networks, case, case.arm("aten"), 0.3).calls > 4


def quiet() -> None:
    pass


def test_calls_fill_the_time_and_all_of_it_counts():
    clock, tally = FakeTimer(), Tally()
    took_s = call_for(
        10.0,
        clock.call("call", 3.0),
        before=clock.call("before", 0.25),
        after=clock.call("after", 0.25),
        finish=clock.call("finish", 1.0),
        tally=tally,
        clock=clock.clock,
    )
    assert clock.events == ["before", "call", "after"] * 3 + ["finish"]
    assert (tally.made, took_s) == ((3, 10.5), 11.5)


def test_a_call_that_is_longer_than_the_time_is_made_once():
    clock, tally = FakeTimer(), Tally()
    took_s = call_for(1.0, clock.call("call", 60.0), before=None, after=None, finish=quiet, tally=tally, clock=clock.clock)
    assert (tally.calls, took_s) == (1, 60.0)


def test_warming_up_ends_after_a_few_calls():
    clock, tally = FakeTimer(), Tally()
    call_for(1000.0, clock.call("call", 1.0), before=None, after=None, finish=quiet, tally=tally, most=3, clock=clock.clock)
    assert tally.calls == 3


def test_a_device_is_never_many_calls_behind():
    events = []

    class Event:
        made = 0

        def __init__(self):
            Event.made += 1
            self.records = 0

        def record(self):
            self.records += 1
            events.append(("record", len(ahead) + 1))
            ahead.append(self)

        def synchronize(self):
            events.append(("wait", len(ahead)))
            assert ahead.pop(0) is self, "waited for another call than the oldest"

    class Cuda:
        def __init__(self):
            self.Event = Event

        def device(self, device):
            return torch.no_grad() if device == "cuda:1" else pytest.fail(device)

    ahead: list[Event] = []
    after = CallQueue("cuda:1", Cuda())
    for _ in range(20):
        after()
    assert Event.made == CallQueue.AHEAD
    assert [depth for kind, depth in events if kind == "record"] == [*range(1, 8), *[8] * 13]
    assert [depth for kind, depth in events if kind == "wait"] == [8] * 12


def test_energy_of_the_calls_alone_is_told_with_its_source(monkeypatch):
    used_j = [100.0]
    counter = EnergyCounter(lambda: (sum(used_j), None), source="test counter")
    monkeypatch.setattr(sustain_module, "open_energy", lambda device: counter)
    monkeypatch.setattr(sustain_module, "prepare_process", lambda *asked: torch.device("cpu"))

    class Workload:
        def repetition(self, seed):
            assert seed == 7
            return self

        restores: dict[str, object] = {}
        # Warming up is a call, too.
        calls = {"arm": lambda: used_j.append(7.5)}

    monkeypatch.setattr(sustain_module, "open_workload", lambda case, arms, device: Workload())
    emitted: list[Sustained] = []
    sustain_module.sustain(SustainTask(case=RMS, conditions=CPU, arm="arm", seconds=0.0, seed=7), emitted.append)
    (result,) = emitted
    assert (result.energy_j, result.energy_source) == (7.5, "test counter")
    assert "energy_j" not in result.reasons
