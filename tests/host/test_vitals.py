"""Clock, temperature and power are followed over time; what cannot be read is left out with its reason."""

from __future__ import annotations

import sys
from itertools import count
from time import sleep
from types import SimpleNamespace

import psutil
import pytest
import torch

from normbench.host import vitals
from normbench.host.energy import EnergyCounter, open_energy
from normbench.host.vitals import CardGauges, CpuGauges, Vitals
from normbench.host.watch import Seen

from .fake_nvml import NOT_SUPPORTED, FakeNvml, NVMLError, card, mig_slice

FIGURES = {"clock_mhz", "temperature_c", "power_w"}


def energy_of(*readings):
    """Return a counter that gives these readings, the last one from then on."""
    upcoming = list(readings)
    return EnergyCounter(lambda: upcoming.pop(0) if len(upcoming) > 1 else upcoming[0], source="test")


def follow(gauges, moments=4, calls=lambda: (0, 0.0)):
    """Follow vital signs until there are some moments."""
    found = Vitals(gauges, calls, interval_s=0.002)
    found.start()
    for _ in range(5000):
        if found._watch.moments >= moments:
            break
        sleep(0.002)
    signs = found.stop()
    assert {len(values) for values in signs.series.values()} == {len(signs.at_s)}
    assert (signs.series.keys() - {"calls", "ended_s"}) | (signs.reasons.keys() - {"throttled"}) == FIGURES
    return signs


@pytest.fixture
def processor(monkeypatch):
    """Stand in for a processor of four cores, of which this process may run on two."""
    shown = SimpleNamespace(clocks=[800.0, 3000.0, 800.0, 3400.0], sensors={"coretemp": [61.0, 74.5, 60.0], "nvme": [90.0]})
    monkeypatch.setattr(vitals, "affinity", lambda: [1, 3])
    monkeypatch.setattr(psutil, "cpu_freq", lambda percpu: [SimpleNamespace(current=clock) for clock in shown.clocks], raising=False)
    sensors = lambda: {name: [SimpleNamespace(current=one) for one in told] for name, told in shown.sensors.items()}  # noqa: E731
    monkeypatch.setattr(psutil, "sensors_temperatures", sensors, raising=False)
    return shown


def test_a_card_is_followed_over_time():
    library = FakeNvml(card("GPU-a", sm_clock=[1980, 1755, 1500], temperature=[50, 64, 71], power_mw=[300_000, 650_500]))
    calls = count(10, 10)
    signs = follow(CardGauges("GPU-a", library=library), calls=lambda: (number := next(calls), number / 100))
    assert signs.series["clock_mhz"][:4] == (1980.0, 1755.0, 1500.0, 1500.0)
    assert signs.series["temperature_c"][:4] == (50.0, 64.0, 71.0, 71.0)
    assert signs.series["power_w"][:3] == (300.0, 650.5, 650.5)
    assert signs.series["calls"][:3] == (10.0, 20.0, 30.0)
    assert signs.series["ended_s"][:3] == (0.1, 0.2, 0.3)
    assert list(signs.at_s) == sorted(signs.at_s)
    assert signs.throttled is None
    assert signs.reasons == {}
    assert library.open == 0


def test_what_slowed_a_card_down_at_any_moment_is_told():
    signs = follow(CardGauges("GPU-a", library=FakeNvml(card("GPU-a", throttle=[0x1, 0x4, 0x0, 0x20, 0x1]))), moments=6)
    assert signs.throttled == "power cap, thermal slowdown by software"
    assert signs.slowdowns[:5] == (None, "power cap", None, "thermal slowdown by software", None)
    assert len(signs.slowdowns) == len(signs.at_s)


def test_what_slowed_a_card_down_is_told_when_its_moment_was_dropped():
    found = Vitals(CardGauges("GPU-a", library=FakeNvml(card("GPU-a", throttle=[0x4, 0x0]))), lambda: (0, 0.0), interval_s=60, limit=2)
    found.start()
    for _ in range(9):
        found._watch._read_once()
    assert found.stop().throttled == "power cap"


def test_a_figure_that_a_card_has_not_is_left_out_alone():
    signs = follow(CardGauges("GPU-a", library=FakeNvml(card("GPU-a", temperature=NOT_SUPPORTED, throttle=NOT_SUPPORTED))))
    assert signs.series.keys() == {"calls", "ended_s", "clock_mhz", "power_w"}
    assert signs.reasons == {"temperature_c": "NVML: Not Supported", "throttled": "NVML: Not Supported"}
    assert signs.slowdowns == ()


def test_a_figure_that_is_there_at_times_has_gaps():
    signs = follow(CardGauges("GPU-a", library=FakeNvml(card("GPU-a", power_mw=[NVMLError("Timeout"), 5000, NVMLError("Timeout"), 6000]))))
    assert signs.series["power_w"][:4] == (None, 5.0, None, 6.0)
    assert signs.reasons == {}


def test_a_slice_has_the_clock_and_heat_of_its_card_and_no_power():
    board = card("GPU-a", sm_clock=1600, power_mw=690_000)
    signs = follow(CardGauges("MIG-1", library=FakeNvml(board, mig_slice("MIG-1", board))))
    assert signs.series["clock_mhz"][0] == 1600.0
    assert signs.reasons == {"power_w": "NVML: Not Supported"}


def test_without_nvml_only_calls_are_left():
    signs = follow(CardGauges("GPU-a", library=FakeNvml(init=NVMLError("Driver Not Loaded"))))
    assert signs.series.keys() == {"calls", "ended_s"}
    assert signs.throttled is None
    assert signs.reasons == dict.fromkeys([*FIGURES, "throttled"], "NVML: Driver Not Loaded")


def test_a_processor_shows_the_clock_of_the_cores_that_may_work_and_its_hottest_spot(processor):
    signs = follow(CpuGauges(energy_of((None, "no counter"))))
    assert set(signs.series["clock_mhz"]) == {3200.0}
    assert set(signs.series["temperature_c"]) == {74.5}
    assert signs.reasons == {"power_w": "no counter"}
    assert signs.throttled is None
    assert signs.slowdowns == ()


def test_one_clock_for_all_cores_is_taken_as_it_is(processor):
    processor.clocks = [2400.0]
    assert set(follow(CpuGauges(energy_of((None, "no counter")))).series["clock_mhz"]) == {2400.0}


def test_power_is_the_energy_between_moments(processor):
    gauges = CpuGauges(energy_of((100.0, None)))
    seen = Seen(
        at_s=[0.5, 1.0, 3.0, 4.0], values={"power_w": [110.0, 110.0, None, 200.0], "clock_mhz": [], "temperature_c": []}, reasons={}
    )
    assert gauges.series(seen)["power_w"] == [20.0, 0.0, None, None]


def test_power_of_a_processor_is_followed(processor):
    signs = follow(CpuGauges(energy_of((0.0, None), (3.0, None), (3.0, None), (9.0, None))), moments=4)
    first, second, third, *_ = signs.series["power_w"]
    assert first == pytest.approx(3.0 / signs.at_s[0], rel=0.1)
    assert second == 0.0
    assert third == pytest.approx(6.0 / (signs.at_s[2] - signs.at_s[1]), rel=0.1)


def test_a_system_that_tells_nothing_is_followed_all_the_same(processor, monkeypatch):
    processor.clocks, processor.sensors = [0.0], {}
    signs = follow(CpuGauges(energy_of((None, "no counter"))))
    assert signs.reasons["clock_mhz"] == "the system tells no clock of its cores"
    assert signs.reasons["temperature_c"] == "no sensor of the processor is visible here; virtual machines have none"
    processor.sensors = {"nvme": [40.0]}
    assert "(there are nvme)" in follow(CpuGauges(energy_of((None, "no counter")))).reasons["temperature_c"]
    monkeypatch.delattr(psutil, "sensors_temperatures")
    monkeypatch.setattr(vitals.platform, "system", lambda: "Darwin")
    assert follow(CpuGauges(energy_of((None, "no counter")))).reasons["temperature_c"] == "psutil reads no temperatures on Darwin"


def test_what_psutil_cannot_find_out_ends_nothing(processor, monkeypatch):
    def fail(percpu):
        raise NotImplementedError("can't find current frequency file")

    monkeypatch.setattr(psutil, "cpu_freq", fail)
    signs = follow(CpuGauges(energy_of((None, "no counter"))))
    assert signs.reasons["clock_mhz"] == "psutil: can't find current frequency file"
    assert "temperature_c" in signs.series


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and /sys")
def test_this_machine_is_followed_whatever_it_has():
    device = torch.device("cpu")
    with open_energy(device) as energy:
        found = Vitals.of(device, energy, lambda: (5, 0.5))
        found.start()
        signs = found.stop()
    assert signs.series["calls"] == (5.0,)
    for name in FIGURES:
        assert (name in signs.series) != (name in signs.reasons)
