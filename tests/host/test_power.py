"""A GPU is found by UUID and watched; what cannot be read is null with a reason, and nothing ends the timing."""

import json
import sys
from time import sleep

import pytest

from normbench.host.nvml import find_handle, opened, visible_uuids
from normbench.host.power import PowerMeter, throttle_reason

from .fake_nvml import NOT_SUPPORTED, FakeNvml, NVMLError, card, mig_slice

FIELDS = {
    "power_w",
    "energy_j",
    "sm_clock_mhz",
    "sm_clock_min_mhz",
    "memory_clock_mhz",
    "temperature_c",
    "utilisation_percent",
    "throttle_bits",
    "throttle_reason",
}


def watch(library, uuid="GPU-a", samples=3):
    """Watch until the meter has taken some samples."""
    meter = PowerMeter(uuid, library=library, interval_s=0.002)
    meter.start()
    if meter._watch is not None:
        for _ in range(2000):
            if meter._watch.moments >= samples:
                break
            sleep(0.002)
    state = meter.stop()
    assert json.loads(json.dumps(state, allow_nan=False)) == state
    assert all(state[name] is not None or name in state["reasons"] or name == "throttle_reason" for name in FIELDS)
    return state


def test_one_card_that_answers_everything():
    state = watch(FakeNvml(card("GPU-a", energy_mj=[1000, 43_500])))
    assert state["uuid"] == "GPU-a"
    assert state["power_w"] == 350.0
    assert state["energy_j"] == 42.5
    assert (state["sm_clock_mhz"], state["memory_clock_mhz"], state["temperature_c"]) == (1755, 3201, 60)
    assert state["utilisation_percent"] == 97
    assert state["samples"] >= 3
    assert state["throttle_reason"] is None
    assert state["reasons"] == {}


def test_samples_become_one_figure_each():
    state = watch(
        FakeNvml(card("GPU-a", sm_clock=[1000, 1980, 1500, 1500, 1500], temperature=[50, 71, 60], throttle=[0x1, 0x4, 0x20, 0x1])),
        samples=5,
    )
    assert state["sm_clock_mhz"] == 1500
    assert state["sm_clock_min_mhz"] == 1000
    assert state["temperature_c"] == 71
    assert state["throttle_bits"] == 0x25
    assert state["throttle_reason"] == "power cap, thermal slowdown by software"


def test_a_block_shorter_than_the_interval_still_has_one_sample():
    meter = PowerMeter("GPU-a", library=FakeNvml(card("GPU-a")), interval_s=60)
    meter.start()
    state = meter.stop()
    assert state["samples"] == 1
    assert state["sm_clock_mhz"] == 1755


def test_the_library_is_closed_again():
    library = FakeNvml(card("GPU-a"))
    watch(library)
    watch(library, uuid="GPU-unknown")
    assert library.open == 0


# B57: an idle card and clocks that somebody chose are no throttling.
@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0x0, None),
        (0x1, None),
        (0x2, None),
        (0x1 | 0x2 | 0x10 | 0x100, None),
        (0x4, "power cap"),
        (0x8, "hardware slowdown"),
        (0x20, "thermal slowdown by software"),
        (0x40 | 0x8 | 0x1, "hardware slowdown, thermal slowdown by hardware"),
        (0x80, "power brake"),
        (1 << 40, None),
    ],
)
def test_throttling_ignores_idle_and_settings(bits, expected):
    assert throttle_reason(bits) == expected


def test_a_throttled_card_keeps_its_figures():
    state = watch(FakeNvml(card("GPU-a", throttle=0x40, sm_clock=1170)))
    assert state["throttle_reason"] == "thermal slowdown by hardware"
    assert state["sm_clock_mhz"] == 1170


# B50: a library that is missing or of another version, a slice or WSL without some metrics.
@pytest.mark.parametrize("message", ["NVML Shared Library Not Found", "Driver/library version mismatch", "Driver Not Loaded"])
def test_without_the_library_every_field_is_null_with_the_reason(message):
    state = watch(FakeNvml(init=NVMLError(message)))
    assert {name: state[name] for name in FIELDS} == dict.fromkeys(FIELDS)
    assert set(state["reasons"]) == FIELDS
    assert set(state["reasons"].values()) == {f"NVML: {message}"}


def test_without_pynvml_the_reason_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with opened() as (library, reason):
        assert library is None
        assert "pip install nvidia-ml-py" in reason


def test_a_metric_that_is_not_supported_is_null_alone():
    state = watch(FakeNvml(card("GPU-a", power_mw=NOT_SUPPORTED, throttle=NOT_SUPPORTED, energy_mj=[1, 2])))
    assert state["power_w"] is state["throttle_bits"] is None
    assert state["reasons"] == dict.fromkeys(["power_w", "throttle_bits", "throttle_reason"], "NVML: Not Supported")
    assert state["sm_clock_mhz"] == 1755


def test_an_energy_counter_that_stands_still_is_null_and_not_zero():
    state = watch(FakeNvml(card("GPU-a", energy_mj=500)))
    assert state["energy_j"] is None
    assert "did not advance" in state["reasons"]["energy_j"]


def test_a_mig_slice_has_the_clocks_of_its_card_and_no_power_of_its_neighbours():
    board = card("GPU-a", sm_clock=1600, power_mw=690_000)
    state = watch(FakeNvml(board, mig_slice("MIG-1", board, sm_clock=NOT_SUPPORTED)), uuid="MIG-1")
    assert state["sm_clock_mhz"] == 1600
    assert state["power_w"] is state["energy_j"] is state["utilisation_percent"] is None
    assert set(state["reasons"]) == {"power_w", "energy_j", "utilisation_percent"}


# B49: CUDA's order and NVML's order differ; the UUID decides.
def test_the_uuid_and_not_the_index_picks_the_card():
    library = FakeNvml(card("GPU-a", power_mw=60_000), card("GPU-b", power_mw=650_000))
    assert watch(library, uuid="GPU-b")["power_w"] == 650.0


def test_a_mig_uuid_that_pytorch_calls_gpu_is_found():
    board = card("GPU-a")
    slice_ = mig_slice("MIG-1", board)
    assert find_handle(FakeNvml(board, slice_), "GPU-1") == (slice_, None)


def test_an_unknown_uuid_is_named():
    assert find_handle(FakeNvml(card("GPU-a")), "GPU-zz") == (None, "device GPU-zz: NVML: Not Found")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ["GPU-aa1", "GPU-ab2", "GPU-b3"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["GPU-ab2"]),
        ({"CUDA_VISIBLE_DEVICES": "2, 0"}, ["GPU-b3", "GPU-aa1"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-ab2"}, ["GPU-ab2"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-b"}, ["GPU-b3"]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-7f"}, ["MIG-7f"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, []),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0,9,1"}, ["GPU-aa1"], id="entries after an invalid one do not count"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "GPU-a"}, [], id="a shortened UUID that fits two"),
    ],
)
def test_visible_devices(environment, expected):
    library = FakeNvml(card("GPU-aa1"), card("GPU-ab2"), card("GPU-b3"))
    assert visible_uuids(library, environment) == (expected, None)


def test_indices_of_unlike_cards_are_ambiguous_until_the_order_is_set():
    library = FakeNvml(card("GPU-a", name="T4"), card("GPU-b", name="H200"))
    uuids, reason = visible_uuids(library, {"CUDA_VISIBLE_DEVICES": "0"})
    assert uuids is None
    assert reason == "CUDA may order H200, T4 differently: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or list UUIDs"
    assert visible_uuids(library, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == (["GPU-b"], None)
    assert visible_uuids(library, {"CUDA_VISIBLE_DEVICES": "GPU-b"}) == (["GPU-b"], None)
