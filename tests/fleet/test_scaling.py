"""What the scaling table is made of: a small one of each part that needs no cluster."""

from __future__ import annotations

from normbench.fleet.scaling import IdleStation, main, request_of
from normbench.fleet.station import Order, software
from normbench.records.record import Status


def test_idle_station_answers_with_a_record_for_each_arm(tmp_path):
    request = request_of(3, str(tmp_path))
    station = IdleStation(Order(providers=("aten",), device="cpu", plan=request.plan, folder=str(tmp_path)), "node")
    found = station.open()
    results = station.measure(request.groups())
    assert [group for group, _ in results] == request.groups()
    assert {(record.status, record.machine, record.node) for _, records in results for record in records} == {
        (Status.SKIPPED, found.name, "node")
    }


def test_tables_are_printed(capsys):
    main(["--groups", "5", "--workers", "", "--records", "50"])
    text = capsys.readouterr().out
    assert "driver, µs per record" in text
    assert "RunWriter" in text
    assert "merge" in text


def test_software_tells_files_of_providers_apart(tmp_path):
    def of(text):
        (tmp_path / "mine.py").write_text(text)
        order = Order(providers=("aten", "./mine.py", "./gone.py"), device="cpu", plan=request_of(1, "").plan, folder=str(tmp_path))
        return software(order)

    one, other = of("a = 1"), of("a = 2")
    assert {name for name in one if one[name] != other[name]} == {"provider file ./mine.py"}
    assert one["provider file ./gone.py"].startswith("not at ")
    assert one["torch"]
    assert len(one["source files of normbench"]) == 12
