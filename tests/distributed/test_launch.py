"""How torchrun is started from the words of a run, and where its processes meet."""

import socket

import pytest

from normbench.cli.run import _start_processes
from normbench.distributed.gathering import Gathering
from normbench.distributed.launch import choose_port
from normbench.distributed.measurer import team_measurer
from normbench.distributed.place import Place
from normbench.errors import UsageError
from normbench.measure.measurer import Measurer
from normbench.text.choices import Choices
from normbench.throughput import _implied


def test_free_port_is_found_and_one_in_use_is_an_error():
    free = choose_port(None)
    assert choose_port(free) == free
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} cannot be used .*--port"):
            choose_port(port)
    with pytest.raises(UsageError, match="not between"):
        choose_port(70000)


@pytest.mark.parametrize(
    ("words", "implied"),
    [
        (["--resume", "latest"], []),
        (["--resume=latest", "--out", "runs", "--json"], []),
        (["--resume", "latest", "--network", "gpt2"], ["--tier", "throughput", "--nproc", "2"]),
        (["--network", "gpt2"], ["--tier", "throughput", "--nproc", "2"]),
        (["--tier", "throughput", "--network", "gpt2"], ["--nproc", "2"]),
        (["--tier=throughput"], ["--nproc", "2"]),
    ],
)
def test_tier_goes_without_saying_and_so_does_everything_of_a_run_that_is_gone_on_with(words, implied):
    assert _implied(words, ["--nproc", "2"]) == implied


def test_several_processes_and_a_cluster_exclude_each_other():
    with pytest.raises(UsageError, match="nproc 2 and ray 'auto'"):
        _start_processes(2, Choices(tier="throughput", nproc=2), [], ray="auto", port=None)


def test_as_many_processes_are_measured_as_were_started(tmp_path):
    assert team_measurer(None, 1) is Measurer
    with pytest.raises(UsageError, match="nproc 2 is asked for, and 1 process was started"):
        team_measurer(None, 2)
    with Gathering(Place(rank=0, size=1, folder=str(tmp_path / "meeting"))) as alone, pytest.raises(UsageError, match="nproc 3"):
        team_measurer(alone, 3)
    assert not (tmp_path / "meeting").exists()
