"""A run on a cluster is one run on disk: every record asked for, once, with the machine and node it was taken on."""

from __future__ import annotations

import msgspec
import pytest

from normbench.cases.case import Case
from normbench.cases.model_case import ModelCase
from normbench.errors import NormbenchError, UsageError
from normbench.fleet.conduct import execute_on
from normbench.fleet.ray_cluster import RayCluster, load_ray
from normbench.records.record import Status
from normbench.storage.store import RunWriter
from normbench.storage.stored_run import read_run

from .runs import request
from .stub import StubCluster


def asked(tmp_path, **changes):
    return msgspec.structs.replace(request(), root=str(tmp_path), **changes)


def run_on(cluster, wanted):
    path, is_sound = execute_on(lambda: cluster, wanted)
    return read_run(path), is_sound


def keys_of(wanted):
    return {group.record_key(arm) for group in wanted.groups() for arm in group.arms}


def test_every_record_is_there_once_with_its_machine_and_node(tmp_path):
    wanted, cluster = asked(tmp_path), StubCluster()
    run, is_sound = run_on(cluster, wanted)
    assert is_sound
    assert run.is_complete
    assert sorted(record.asked for record in run.records) == sorted(keys_of(wanted))
    assert {record.machine for record in run.records} == set(run.info.machines) == {"0123456789ab"}
    assert {record.node for record in run.records} <= {"a", "b"}
    assert cluster.is_closed


def test_lost_node_is_noted_and_costs_no_record(tmp_path):
    run, is_sound = run_on(StubCluster(fate={1: "lost"}), asked(tmp_path))
    assert is_sound
    assert run.is_complete
    assert any("was lost" in note for note in run.info.notes)
    lines = (run.path / "records.jsonl").read_bytes().splitlines()
    assert len(lines) == len(run.records) == 6


def test_crash_becomes_error_records(tmp_path):
    run, is_sound = run_on(StubCluster(fate={0: "crashed"}), asked(tmp_path))
    assert not is_sound
    failed = [record for record in run.records if record.status is Status.ERROR]
    assert failed
    assert all("crashed" in record.reason for record in failed)
    assert len(run.records) == 6


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), None], ids=["Ctrl-C", "no node left"])
def test_stopped_run_keeps_its_records_and_resumes(tmp_path, stop):
    wanted = asked(tmp_path)
    cluster = StubCluster(["a"], {1: stop or "lost"})
    with pytest.raises(KeyboardInterrupt if stop else NormbenchError):
        execute_on(lambda: cluster, wanted)
    assert cluster.is_closed
    stopped = read_run("latest", root=tmp_path)
    assert not stopped.is_complete
    assert {record.status for record in stopped.records} == {Status.OK, Status.INTERRUPTED}
    assert {record.asked for record in stopped.records} == keys_of(wanted)

    again = StubCluster()
    run, _ = run_on(again, msgspec.structs.replace(wanted, resume="latest"))
    assert run.is_complete
    assert {record.status for record in run.records} == {Status.OK}
    before = {record.asked for record in stopped.records if record.status is Status.OK}
    measured = {f"{group_id}#aten" for _, ids in again.tasks for group_id in ids}
    assert not before & measured, "what was done is not measured again"


def test_ctrl_c_between_writing_a_record_and_noting_it_does_not_count_it_twice(tmp_path, monkeypatch):
    write, calls = RunWriter.append, []

    def append_and_stop(self, *records):
        write(self, *records)
        calls.append(records)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunWriter, "append", append_and_stop)
    with pytest.raises(KeyboardInterrupt):
        execute_on(StubCluster, asked(tmp_path))
    run = read_run("latest", root=tmp_path)
    assert len(run.records) == len({record.asked for record in run.records}) == 6
    assert [record.status for record in run.records].count(Status.OK) == 2


def test_norms_go_where_their_network_goes(tmp_path):
    cases = tuple(ModelCase.make("gpt2", "tiny", norm, "forward", (2, 64)) for norm in ("layer_norm", "rms_norm"))
    norm = Case.make("rms_norm", "forward", (2, 64), "float32")
    cluster = StubCluster(norms={"gpt2": {norm: 4}})
    wanted = asked(tmp_path, cases=cases)
    execute_on(lambda: cluster, wanted)
    ((_, ids),) = cluster.tasks
    assert [group_id.partition("/")[0] for group_id in ids] == ["model", "op"]


def test_card_cannot_be_chosen_on_a_cluster(tmp_path):
    with pytest.raises(UsageError, match="'cuda:1' means nothing on a cluster"):
        RayCluster(asked(tmp_path, device="cuda:1"), "auto", folder=str(tmp_path))


def test_without_ray_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'normbench\[ray\]'"):
        load_ray()
