"""Energy is the difference of a counter; where there is no counter, or it cannot be read, there is a reason and never a 0."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from normbench.host.energy import card_energy, open_energy, package_energy
from normbench.host.nvml import Card

from .fake_nvml import NOT_SUPPORTED, FakeNvml, card, mig_slice
from .fake_root import write

CPU = torch.device("cpu")


def packages(root, *energies_uj, range_uj=262_143_328_850):
    """Lay out one RAPL domain per package, each with a domain inside."""
    for number, energy_uj in enumerate(energies_uj):
        domain = f"intel-rapl:{number}"
        write(root, {f"{domain}/name": f"package-{number}", f"{domain}/energy_uj": str(energy_uj)})
        write(root, {f"{domain}/max_energy_range_uj": str(range_uj)})
        write(root, {f"{domain}:0/name": "core", f"{domain}:0/energy_uj": "999999999"})
    return root


def advance(root, number, energy_uj):
    write(root, {f"intel-rapl:{number}/energy_uj": str(energy_uj)})


def test_energy_of_all_packages_is_added_up(tmp_path):
    packages(tmp_path, 1_000_000, 5_000_000)
    with open_energy(CPU, powercap=tmp_path) as counter:
        assert counter.source == "rapl package-0+package-1"
        before_j = counter.read()
        advance(tmp_path, 0, 3_500_000)
        advance(tmp_path, 1, 5_250_000)
        assert counter.read() - before_j == pytest.approx(2.75)
        assert counter.reason is None


def test_domains_that_contain_or_repeat_a_package_are_not_counted(tmp_path):
    packages(tmp_path, 0)
    write(tmp_path, {"intel-rapl:1/name": "psys", "intel-rapl:1/energy_uj": "7"})
    write(tmp_path, {"intel-rapl-mmio:0/name": "package-0", "intel-rapl-mmio:0/energy_uj": "7"})
    assert package_energy(tmp_path).source == "rapl package-0"


def test_a_counter_that_starts_again_goes_on(tmp_path):
    packages(tmp_path, 9_000_000, range_uj=10_000_000)
    counter = package_energy(tmp_path)
    start_j = counter.read()
    for energy_uj, expected_j in [(500_000, 1.5), (9_500_000, 10.5), (100_000, 11.1), (100_000, 11.1)]:
        advance(tmp_path, 0, energy_uj)
        assert counter.read() - start_j == pytest.approx(expected_j)


def test_a_counter_that_starts_again_at_an_unknown_end_has_a_reason(tmp_path):
    packages(tmp_path, 9_000_000)
    (tmp_path / "intel-rapl:0/max_energy_range_uj").unlink()
    counter = package_energy(tmp_path)
    counter.read()
    advance(tmp_path, 0, 1)
    assert counter.read() is None
    assert counter.reason == f"{tmp_path}/intel-rapl:0/max_energy_range_uj: No such file or directory"


def test_counters_for_root_alone_are_named_with_the_remedy(tmp_path, monkeypatch):
    packages(tmp_path, 1, 2)
    read_text = Path.read_text

    def read_unless_secret(path):
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path)

    monkeypatch.setattr(Path, "read_text", read_unless_secret)
    counter = open_energy(CPU, powercap=tmp_path)
    assert counter.read() is counter.source is None
    assert counter.reason.startswith(f"{tmp_path}/intel-rapl:0/energy_uj: only root may read it (since CVE-2020-8694)")
    assert counter.reason.endswith(f"sudo chmod a+r {tmp_path}/intel-rapl:*/energy_uj")


def test_one_package_alone_is_not_passed_off_as_all(tmp_path):
    packages(tmp_path, 1, 2)
    (tmp_path / "intel-rapl:1/energy_uj").unlink()
    counter = open_energy(CPU, powercap=tmp_path)
    assert counter.read() is None
    assert counter.reason == f"{tmp_path}/intel-rapl:1/energy_uj: No such file or directory"


def test_a_counter_that_is_no_number_has_a_reason(tmp_path):
    packages(tmp_path, "unknown")
    assert open_energy(CPU, powercap=tmp_path).reason == f"{tmp_path}/intel-rapl:0/energy_uj: 'unknown' is not a count"


@pytest.mark.parametrize("domains", [{}, {"intel-rapl:0/name": "psys"}, {"intel-rapl/enabled": "1"}])
def test_a_machine_without_counters_says_so(tmp_path, domains):
    counter = open_energy(CPU, powercap=write(tmp_path, domains) / "powercap" if not domains else write(tmp_path, domains))
    assert counter.read() is counter.source is None
    assert "shows no processor package: virtual machines" in counter.reason
    assert "sudo modprobe intel_rapl_msr" in counter.reason
    assert counter.spent(counter.read(), 1.0) == (None, counter.reason)


def test_a_device_without_a_known_counter_says_so():
    counter = open_energy(torch.device("meta"))
    assert (counter.read(), counter.source) == (None, None)
    assert counter.reason == "no energy counter is known of devices of type 'meta'"


@pytest.fixture
def cuda(monkeypatch):
    """Stand in for a device whose UUID PyTorch tells as it does: without GPU- before it."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=device.index))
    return torch.device("cuda:1")


def test_energy_of_a_card_is_that_of_the_card_that_is_meant(cuda):
    library = FakeNvml(card("GPU-0", energy_mj=NOT_SUPPORTED), card("GPU-1", energy_mj=[0, 1000, 43_500]))
    with open_energy(cuda, library=library) as counter:
        assert counter.source == "nvml total energy"
        assert counter.spent(counter.read(), 1.0) == (42.5, None)
    assert library.open == 0


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        (FakeNvml(card("GPU-1", energy_mj=NOT_SUPPORTED)), "NVML: Not Supported"),
        (FakeNvml(card("GPU-0")), "device GPU-1: NVML: Not Found"),
        (FakeNvml(init=RuntimeError("Driver Not Loaded")), "NVML: Driver Not Loaded"),
    ],
)
def test_a_card_without_a_counter_says_why(cuda, library, reason):
    with open_energy(cuda, library=library) as counter:
        assert counter.read() is counter.source is None
        assert counter.reason == reason
    assert library.open == 0


def test_a_slice_does_not_have_the_energy_of_its_neighbours():
    board = card("GPU-a", energy_mj=[1, 2])
    counter = card_energy(Card("MIG-1", library=FakeNvml(board, mig_slice("MIG-1", board))))
    assert counter.read() is None
    assert counter.reason == "NVML: Not Supported"


def test_a_counter_that_stands_still_is_no_energy_of_zero():
    counter = card_energy(Card("GPU-a", library=FakeNvml(card("GPU-a", energy_mj=500))))
    assert counter.spent(counter.read(), 0.25) == (None, "the energy counter did not advance within 0.250 s")


@pytest.mark.parametrize("answers", [[NOT_SUPPORTED, 500], [500, NOT_SUPPORTED]])
def test_energy_between_two_readings_needs_both(answers):
    counter = card_energy(Card("GPU-a", library=FakeNvml(card("GPU-a", energy_mj=answers))))
    before_j = counter.read()
    assert counter.spent(before_j, 1.0) == (None, "NVML: Not Supported")
