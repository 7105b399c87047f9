"""What a server does once is there for all its forks: they compile nothing again, and compute on as many threads as they like."""

import pytest

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.cases.model_case import ModelCase
from normbench.measure.checking import CheckTask
from normbench.measure.servers import Servers

CASE = Case.make("rms_norm", "forward", (8, 64), "float32")
NETWORK = ModelCase.make("cnn", "tiny", "layer_norm", "forward", (2, 3, 32, 32))
TWO = Conditions(device="cpu", threads=2)


def prepare(servers, case, *arms):
    servers.prepare("normbench.measure.ahead:prepare_calls", CheckTask(case=case, conditions=TWO, providers=arms, seed=0))


@pytest.fixture
def servers(tmp_path):
    found = Servers(["aten", "compile"], device="cpu", log=tmp_path / "log", timeout_s=120)
    yield found
    found.close()


def test_a_fork_finds_compiled_what_was_prepared(servers):
    def graphs():
        return list(servers.run("measure.group_tasks:emit_new_graphs", (CASE, TWO)))

    (fresh,) = graphs()
    prepare(servers, CASE, "compile")
    assert (fresh, graphs()) == (1, [0])


def test_forks_compute_on_threads_after_the_server_did(servers):
    # A pool of threads does not survive a fork: made by the server's own thread, it would hang the first of these.
    servers.prepare("normbench.measure.ahead:load_networks", (NETWORK,))
    prepare(servers, NETWORK, "layer_norm:aten", "rms_norm:aten")
    for _ in range(2):
        assert list(servers.run("measure.group_tasks:emit_threaded_sum", TWO)) == [2.0**21]
