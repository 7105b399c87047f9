"""What a node says of itself before it is given anything to measure."""

from __future__ import annotations

import msgspec

from normbench.cases.throughput_case import ThroughputCase
from normbench.fleet.scaling import request_of
from normbench.fleet.station import Order, Station

CASE = ThroughputCase.make("gpt2", "tiny", "rms_norm", "train", (2, 64))


def opened(folder, case, monkeypatch):
    monkeypatch.chdir(folder)
    order = Order(providers=("aten",), networks=(case,), device="cpu", plan=request_of(1, "").plan, folder=str(folder))
    station = Station(order, "node")
    found = station.open()
    station.close()
    return found


def test_node_that_can_build_the_networks_refuses_nothing(tmp_path, monkeypatch):
    found = opened(tmp_path, CASE, monkeypatch)
    assert found.refusal is None
    assert found.machine["device"]["type"] == "cpu"


def test_node_that_cannot_build_a_network_says_so_before_it_is_given_a_task(tmp_path, monkeypatch):
    found = opened(tmp_path, msgspec.structs.replace(CASE, network="gpt9"), monkeypatch)
    assert "network 'gpt9' is unknown" in found.refusal
