"""Runs taken apart become one: nothing lost, nothing twice, each record with its own machine."""

from __future__ import annotations

import json

import msgspec
import pytest
import synthetic

from normbench.cases.case import Case
from normbench.cases.model_case import ModelCase
from normbench.errors import NormbenchError, UsageError
from normbench.fleet import merge
from normbench.fleet.machines import machine_name
from normbench.fleet.merge import merge_runs
from normbench.job.request import Request
from normbench.records.record import Status
from normbench.storage.store import RunWriter
from normbench.storage.stored_run import RunStatus, read_run

from .runs import ELSEWHERE, records_of, request, write_run


def lines_of(path):
    return (path / "records.jsonl").read_bytes().splitlines()


def shards(root, count=2, **options):
    return [write_run(root, request(f"{index}/{count}"), **options) for index in range(1, count + 1)]


def test_shards_make_up_the_run_that_was_taken_apart(tmp_path):
    parts = shards(tmp_path / "parts", 3)
    path = merge_runs(parts, command=["normbench", "merge"], root=tmp_path)
    run = read_run(path)
    assert run.is_complete
    assert {record.key for record in run.records} == {record.key for record in records_of(request())}
    assert run.info.planned == 6
    assert run.info.machine == synthetic.MACHINE
    assert run.info.machines == {}
    assert sorted(lines_of(path)) == sorted(line for part in parts for line in lines_of(part)), "as they were, to the byte"
    assert msgspec.convert(run.info.settings["request"], Request).groups() == request().groups(), "it can be resumed as the whole"


def test_missing_shard_leaves_the_run_incomplete_and_is_named(tmp_path):
    first, _, third = shards(tmp_path, 3)
    run = read_run(merge_runs([first, third], root=tmp_path))
    assert not run.is_complete
    assert run.info.planned == 6
    assert any("missing: shard 2/3" in note for note in run.info.notes)


def test_records_of_two_machines_are_kept_apart_by_the_machine_of_each(tmp_path):
    here, there = write_run(tmp_path, request()), write_run(tmp_path, request(), machine=ELSEWHERE)
    run = read_run(merge_runs([here, there], root=tmp_path))
    assert run.is_complete
    names = {machine_name(machine, synthetic.VERSIONS): machine for machine in (synthetic.MACHINE, ELSEWHERE)}
    assert {name: one.machine for name, one in run.info.machines.items()} == names
    for name in names:
        assert {record.asked for record in run.records if record.machine == name} == {one.asked for one in records_of(request())}
    assert run.info.machine == {}, "the run as a whole is of no machine"


def test_other_software_is_another_machine(tmp_path):
    newer = synthetic.VERSIONS | {"torch": "2.14.0"}
    path = merge_runs([write_run(tmp_path, request()), write_run(tmp_path, request(), versions=newer)], root=tmp_path)
    assert [one.versions["torch"] for one in read_run(path).info.machines.values()] == ["2.13.0", "2.14.0"]


def test_merged_runs_can_be_merged_again(tmp_path):
    first, second = shards(tmp_path)
    there = write_run(tmp_path, request(), machine=ELSEWHERE)
    once = merge_runs([merge_runs([first, there], root=tmp_path), second], root=tmp_path)
    run = read_run(once)
    assert len(run.records) == 2 * len(records_of(request()))
    assert len({record.key for record in run.records}) == len(run.records)
    assert set(run.info.machines) == {record.machine for record in run.records}


def test_same_record_twice_is_one_error_that_names_it_and_both_runs(tmp_path):
    first, _ = shards(tmp_path)
    again = write_run(tmp_path, request("1/2"))
    with pytest.raises(UsageError) as raised:
        merge_runs([first, again], root=tmp_path / "out")
    key = read_run(first).records[0].asked
    assert key in str(raised.value)
    assert first.name in str(raised.value)
    assert again.name in str(raised.value)
    assert not (tmp_path / "out").exists(), "nothing was written"


@pytest.mark.parametrize("order", [1, -1], ids=["interrupted first", "done first"])
@pytest.mark.parametrize("machine", [synthetic.MACHINE, ELSEWHERE], ids=["same machine", "another machine"])
def test_done_wins_over_interrupted(tmp_path, order, machine):
    asked = request()
    done, open_ = records_of(asked)[:2], records_of(asked, Status.INTERRUPTED)[1:]
    # The second run has what the first one did not reach.
    stopped = write_run(tmp_path, asked, [*done, *open_], planned=6)
    rest = write_run(tmp_path, asked, records_of(asked)[2:], machine=machine, planned=5)
    run = read_run(merge_runs([stopped, rest][::order], root=tmp_path))
    assert {record.status for record in run.records} == {Status.OK}
    assert {record.asked for record in run.records} == {record.asked for record in records_of(asked)}
    assert run.info.planned == 6
    assert run.is_complete


def test_what_is_interrupted_everywhere_stays_so(tmp_path):
    asked = request()
    runs = [write_run(tmp_path, asked, records_of(asked, Status.INTERRUPTED)) for _ in range(2)]
    run = read_run(merge_runs(runs, root=tmp_path))
    assert [record.status for record in run.records] == [Status.INTERRUPTED] * 6
    assert run.info.status is RunStatus.INCOMPLETE


def test_resumed_run_counts_with_what_it_has_last(tmp_path):
    asked = request("1/2")
    first = write_run(tmp_path, asked, records_of(asked, Status.INTERRUPTED))
    with RunWriter.resume(first) as writer:
        writer.append(*records_of(asked))
    run = read_run(merge_runs([first, write_run(tmp_path, request("2/2"))], root=tmp_path))
    assert run.is_complete
    assert len(lines_of(run.path)) == len(run.records) == len(records_of(request()))


def test_run_killed_in_the_middle_leaves_the_whole_incomplete(tmp_path):
    first, second = shards(tmp_path)
    file = second / "records.jsonl"
    file.write_bytes(file.read_bytes()[:-100])
    run = read_run(merge_runs([first, second], root=tmp_path))
    assert len(run.records) == len(records_of(request())) - 1


def network_request(shard, name):
    cases = tuple(ModelCase.make(name, "tiny", norm, "forward", (2, 64)) for norm in ("layer_norm", "rms_norm"))
    return msgspec.structs.replace(request(), cases=cases, label=f"{name}-{shard}")


def test_norm_that_came_along_with_networks_of_two_shards_is_kept_once(tmp_path):
    norm = synthetic.record(Case.make("rms_norm", "forward", (2, 64), "float32"))
    paths = [write_run(tmp_path, network_request(index, name), [norm], planned=3) for index, name in enumerate(("gpt2", "bert"))]
    run = read_run(merge_runs(paths, root=tmp_path))
    assert run.records == (norm,)
    assert run.info.planned == 5
    assert any("1 records of norms that came along with networks of several shards" in note for note in run.info.notes)


def test_fields_of_a_newer_normbench_are_kept(tmp_path):
    paths = [write_run(tmp_path, request()), write_run(tmp_path, request(), machine=ELSEWHERE)]
    for path in paths:
        file = path / "records.jsonl"
        file.write_bytes(file.read_bytes().replace(b'"schema":1', b'"schema":1,"added_later":[1.5]'))
    merged = merge_runs(paths, root=tmp_path)
    found = [json.loads(line) for line in lines_of(merged)]
    assert len(found) == 2 * len(records_of(request()))
    assert all(one["added_later"] == [1.5] for one in found)


def test_mixed_schemas_of_records_are_one_clear_error(tmp_path):
    first, second = shards(tmp_path)
    file = second / "records.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"schema":1', b'"schema":0'))
    with pytest.raises(UsageError, match=rf"records of schema 0 \(run {second.name} .*schema 1 \(run {first.name}.*with one version"):
        merge_runs([first, second], root=tmp_path)


def test_mixed_schemas_of_runs_are_one_clear_error(tmp_path):
    first, second = shards(tmp_path)
    file = second / "run.json"
    file.write_text(file.read_text().replace('"schema": 1', '"schema": 0'))
    with pytest.raises(UsageError, match=r"run\.json of schema 0 .* cannot be joined: take all runs with one version"):
        merge_runs([first, second], root=tmp_path)


def test_newer_schema_says_to_update(tmp_path):
    first, second = shards(tmp_path)
    file = second / "records.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"schema":1', b'"schema":9'))
    with pytest.raises(NormbenchError, match=r"schema 9 is newer than 1.*update normbench"):
        merge_runs([first, second], root=tmp_path)


def test_another_plan_is_refused_by_name(tmp_path):
    with pytest.raises(UsageError, match=r"budget_s 2\.0, .* 8\.0: only runs of one plan can be joined"):
        merge_runs([write_run(tmp_path, request()), write_run(tmp_path, request(budget=2.0))], root=tmp_path)


def test_nothing_to_join_is_refused(tmp_path):
    path = write_run(tmp_path, request())
    with pytest.raises(UsageError, match="name two runs or more"):
        merge_runs([path], root=tmp_path)
    with pytest.raises(UsageError, match="is named twice"):
        merge_runs([path, f"{path}/run.json"], root=tmp_path)
    with pytest.raises(UsageError, match="there is no run 'gone'"):
        merge_runs([path, "gone"], root=tmp_path)


def test_different_grids_are_joined_and_not_to_be_resumed(tmp_path):
    run = read_run(merge_runs([write_run(tmp_path, request()), write_run(tmp_path, request(grid="64x64"))], root=tmp_path))
    assert run.is_complete
    assert run.info.planned == 8
    assert "request" not in run.info.settings


def test_commits_that_differ_are_told(tmp_path):
    run = read_run(
        merge_runs([write_run(tmp_path, request("1/2")), write_run(tmp_path, request("2/2"), git_commit="b" * 40)], root=tmp_path)
    )
    assert run.info.git_commit == "unknown"
    assert any("different commits" in note for note in run.info.notes)


def test_records_are_written_in_batches_that_stay_small(tmp_path, monkeypatch):
    monkeypatch.setattr(merge, "BATCH", 2)
    sizes = []
    write = RunWriter.append_lines
    monkeypatch.setattr(RunWriter, "append_lines", lambda self, lines: (sizes.append(len(lines)), write(self, lines))[1])
    merge_runs(shards(tmp_path / "parts"), root=tmp_path)
    assert sum(sizes) == len(records_of(request())) + sum(sizes[:2]), "the two shards were written one by one"
    assert max(sizes[2:]) == 2


def test_command_joins_and_the_report_shows_each_machine(tmp_path, normbench):
    paths = [write_run(tmp_path, request()), write_run(tmp_path, request(), machine=ELSEWHERE)]
    done = normbench("merge", *paths, "--out", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["status"] == "complete"
    report = normbench("report", found["run"])
    assert report.returncode == 0, report.stderr
    text = (tmp_path / "runs" / found["run"].rpartition("/")[2] / "report" / "report.md").read_text()
    assert "Example CPU 9000" in text
    assert "Another CPU 1" in text
    assert normbench("merge", paths[0], paths[0]).returncode == 2
