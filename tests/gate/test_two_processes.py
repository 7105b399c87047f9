"""Two interpreters side by side: who runs what, who is at fault when one fails, and a real pair of them."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from random import Random

import pytest

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.errors import NormbenchError, UsageError
from normbench.gate import two_processes
from normbench.gate.arms import Side
from normbench.gate.duet import PartnerLost, PartnerSilent
from normbench.gate.interpreter import Interpreter, find_interpreter
from normbench.gate.likeness import Account
from normbench.gate.process import CONTROL, Candidate, Setup
from normbench.gate.sources import Sources
from normbench.gate.trees import folder_tree
from normbench.gate.two_processes import TwoProcesses
from normbench.host.threads import affinity
from normbench.measure.plan import Schedule
from normbench.measure.worker import TaskDied, TaskTimeout
from normbench.records.record import Status

from .repositories import write

BASE, HEAD = Side
OTHER = Interpreter(executable="/other/python", python="3.12.1", versions={"torch": "2.9.0"})
KERNEL = """
    import os
    import sys

    import normbench

    CALLS = 0


    @normbench.provider("mine", norms=["rms_norm"])
    def mine(x, weight, bias, residual, eps):
        global CALLS
        CALLS += 1
        # Base's interpreter does not survive so many calls of this case: no check makes as many.
        if x.shape[0] == 5 and CALLS > 100 and sys.prefix != {prefix!r}:
            os.abort()
        return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight
"""


def candidate(rows, spec="./kernel.py", norm="rms_norm"):
    return Candidate(case=Case.make(norm, "forward", (rows, 8), "float32"), base_spec=spec, head_spec=spec)


def setup_of(folder, *specs):
    tree = folder_tree(folder)
    return Setup(base=tree, head=tree, specs=tuple((spec, spec) for spec in specs), conditions=Conditions(device="cpu", threads=1), seed=0)


def schedule_of(one, repetitions=2, turns=3, inner=2):
    return Schedule(repetitions=repetitions, turns=turns, inner=dict.fromkeys(one.arms, inner))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    write(folder, {"kernel.py": KERNEL.format(prefix=sys.prefix)})
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Return another Python: a virtual environment that borrows the packages of this one."""
    home = tmp_path_factory.mktemp("other")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    packages = home / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return find_interpreter(home / "bin/python")


@pytest.fixture(scope="module")
def arena(folder, other, tmp_path_factory):
    arena = TwoProcesses(setup_of(folder, "./kernel.py"), tmp_path_factory.mktemp("logs") / "log", base_python=other)
    yield arena
    arena.close()


def test_a_real_pair_checks_and_takes_a_block_and_a_control_and_one_that_dies_is_named(arena):
    fine, fatal, control = candidate(4), candidate(5), candidate(4, CONTROL, "layer_norm")
    assert [result.status for one in (fine, fatal, control) for result in arena.check(one)] == [Status.OK] * 6
    assert not arena.is_ready
    arena.prepare([fine, fatal, control])
    assert arena.is_ready
    for one in (fine, control):
        block = arena.block(one, schedule_of(one), seed=1, peak_bytes=0)
        assert (block.candidate, block.inner) == (one.id, 2)
        assert [[len(draw) for draw in side] for side in (block.base_s, block.head_s)] == [[3, 3], [3, 3]]
        assert all(sample > 0 for side in (block.base_s, block.head_s) for draw in side for sample in draw)
    with pytest.raises(NormbenchError, match=r"^base: .*signal 6, SIGABRT"):
        arena.block(fatal, schedule_of(fatal, turns=60, inner=3), seed=1, peak_bytes=0)
    assert arena.is_ready, "a fork that dies leaves its server"
    assert arena.block(fine, schedule_of(fine), seed=2, peak_bytes=0).log_ratio is not None
    assert arena.code(fine).same is None
    assert arena.code(fine).text == "both arms are the same code; each ran in an interpreter of its own"


def test_what_neither_side_has_is_refused(folder, other, tmp_path):
    arena = TwoProcesses(setup_of(folder, "./gone.py"), tmp_path / "log", base_python=other)
    try:
        with pytest.raises(UsageError, match=r"nothing to compare: base .* has no file \./gone\.py; head"):
            arena.check(candidate(4, "./gone.py"))
    finally:
        arena.close()


class Player:
    """Stand in for a server; `script` says what each side answers in a duet."""

    made = []
    script = {}

    def __init__(self, *, setup, setup_argument, environment, log):
        self.setup, self.environment, self.is_closed, self.tasks = setup_argument, environment, False, []
        Player.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def close(self):
        self.is_closed = True

    def run(self, task, argument, *, timeout_s):
        if task.endswith("tell_absence"):
            yield from ((f"{self.setup.sides[0]} {spec}", None) for spec, _ in self.setup.specs)
            return
        if task.endswith("give_account"):
            yield argument.arms[0], Account(sources=Sources(provider="mine", loaded={}, files={}))
            return
        self.tasks.append(argument)
        if argument.listens:
            yield "listens"
        answer = Player.script.get(argument.side, (1.0,) * argument.turns)
        if isinstance(answer, Exception):
            raise answer
        yield answer


@pytest.fixture
def played(monkeypatch, tmp_path):
    monkeypatch.setattr(two_processes, "Worker", Player)
    Player.made, Player.script = [], {}
    arena = TwoProcesses(setup_of(tmp_path, "./kernel.py"), tmp_path / "log", base_python=OTHER)
    yield arena
    arena.close()
    assert all(one.is_closed for one in Player.made)


def test_controls_are_head_against_head_so_that_no_interpreter_moves_them(played):
    played.prepare([candidate(4), candidate(4, CONTROL, "layer_norm")])
    relayed = [server for server in Player.made if "PYTHONPATH" in server.environment]
    assert len(Player.made) == 3
    assert [(server.setup.sides, [one.base_spec for one in server.setup.prepared]) for server in relayed] == [((BASE,), ["./kernel.py"])]
    (stand_in,) = (server for server in Player.made if server.setup.sides == (BASE,) and server not in relayed)
    assert [one.base_spec for one in stand_in.setup.prepared] == [CONTROL]
    (head,) = (server for server in Player.made if server.setup.sides == (HEAD,))
    assert [one.base_spec for one in head.setup.prepared] == ["./kernel.py", CONTROL]


def test_a_round_has_new_servers_because_forks_inherit_what_their_server_has_of_memory(played):
    played.prepare([candidate(4)])
    before = list(Player.made)
    played.renew([candidate(4)])
    assert all(server.is_closed for server in before)
    assert played.is_ready


def test_every_draw_is_in_a_new_pair_and_either_side_may_be_the_first(played):
    one = candidate(4)
    played.prepare([one])
    block = played.block(one, schedule_of(one, repetitions=40, turns=2), seed=3, peak_bytes=7)
    assert block.base_s == block.head_s == ((1.0, 1.0),) * 40
    tasks = {server.setup.sides[0]: server.tasks for server in Player.made if server.tasks}
    assert [len(tasks[side]) for side in Side] == [40, 40]
    assert all(base.listens is not head.listens for base, head in zip(tasks[BASE], tasks[HEAD], strict=True))
    assert all((base.seed, base.turns) == (head.seed, head.turns) for base, head in zip(tasks[BASE], tasks[HEAD], strict=True))
    assert all(base.cpu == head.cpu in affinity() for base, head in zip(tasks[BASE], tasks[HEAD], strict=True))
    assert 8 < sum(task.listens for task in tasks[BASE]) < 32


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param({HEAD: TaskDied("killed by signal 11", 11), BASE: PartnerLost("the other ended")}, "head: killed", id="head dies"),
        pytest.param({BASE: TaskDied("killed by signal 11", 11), HEAD: PartnerLost("the other ended")}, "base: killed", id="base dies"),
        pytest.param({BASE: PartnerSilent("no hand-over for 100 s"), HEAD: TaskTimeout("unseen")}, "head: no hand-over", id="head hangs"),
        pytest.param({BASE: NormbenchError("boom")}, "base: boom", id="base fails after head was done"),
    ],
)
def test_the_side_at_fault_is_named_whoever_came_first(played, script, words, seed):
    one = candidate(4)
    played.prepare([one])
    Player.script = script
    with pytest.raises(NormbenchError, match=f"^{words}"):
        played.block(one, schedule_of(one, repetitions=1), seed=seed, peak_bytes=0)


def test_a_side_that_hangs_is_ended_and_others_go_on_with_new_servers(played):
    one = candidate(4)
    played.prepare([one])
    Player.script = {BASE: PartnerSilent("no hand-over"), HEAD: PartnerLost("ended")}
    with pytest.raises(NormbenchError):
        # Base comes second with this seed, and is read first.
        played.block(one, schedule_of(one, repetitions=1), seed=next(seed for seed in range(99) if first_of(seed) is HEAD), peak_bytes=0)
    assert not played.is_ready


def first_of(seed):
    return Random(Random(seed).randrange(2**31)).sample(list(Side), 2)[0]


def test_notes_name_both_interpreters_and_say_what_two_processes_cost(played):
    which, why = played.notes
    assert which.startswith("base ran in /other/python (Python 3.12.1, torch 2.9.0), head in this one (Python ")
    assert "smaller changes went unseen" in why
