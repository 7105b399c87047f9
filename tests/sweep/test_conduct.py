"""A sweep finds the largest batch of every arm, never tries one twice, keeps what it did, and goes on from there."""

from __future__ import annotations

import pytest

from normbench.errors import NormbenchError
from normbench.measure.checking import CheckTask
from normbench.measure.worker import TaskDied
from normbench.records.record import Status
from normbench.sweep.conduct import Observer, conduct
from normbench.sweep.entry import Check, Point, SideBySide, Verdict
from normbench.sweep.journal import JOURNALS
from normbench.sweep.summary import summarise

from .made import FakeEngine, header, question

ROOM = {"layer_norm:eager": 20, "layer_norm:aten": 40, "rms_norm:eager": 21, "rms_norm:aten": 7}


def swept(path, engine, asked=None, *, resume=False, observer=None):
    """Conduct a sweep in a folder and return its entries."""
    with JOURNALS.open(path, header(asked), resume=resume) as journal:
        conduct(journal, engine, observer or Observer())
        return journal.entries


def arms(entries, asked=None):
    (company,) = summarise(question() if asked is None else asked, entries)
    return {one.arm.name: one for one in company.arms}


def test_largest_batch_of_every_arm_is_found(tmp_path):
    entries = swept(tmp_path, FakeEngine(ROOM))
    found = {name: (one.largest.batch, one.smallest_failed.batch) for name, one in arms(entries).items()}
    assert found == {"layer_norm:eager": (20, 21), "layer_norm:aten": (40, 42), "rms_norm:eager": (21, 22), "rms_norm:aten": (7, 8)}


def test_point_has_the_samples_of_each_process_and_the_most_memory(tmp_path):
    entries = swept(tmp_path, FakeEngine(ROOM))
    point = next(one for one in entries if isinstance(one, Point) and one.batch == 4)
    # Of ten seconds each: no more processes than an interval needs.
    assert len(point.samples_s) == 3
    assert point.peak_bytes == 4000
    assert point.tokens_per_s.estimate == pytest.approx(1000, rel=0.01)


def test_arms_take_turns_batch_by_batch(tmp_path):
    points = [one for one in swept(tmp_path, FakeEngine(ROOM)) if isinstance(one, Point)]
    assert [one.batch for one in points[:8]] == [1] * 4 + [2] * 4


def test_only_the_first_process_of_a_batch_is_thorough(tmp_path):
    engine = FakeEngine(ROOM)
    swept(tmp_path, engine)
    first, *others = [one for one in engine.asked if getattr(one, "arms", ()) == ("rms_norm:aten",) and one.case.size[0] == 4]
    assert first.is_thorough
    assert not any(one.is_thorough for one in others)
    assert len({one.seed for one in (first, *others)}) == 3
    assert first.limit_bytes == 2**29


def test_wrong_arm_is_not_swept(tmp_path):
    engine = FakeEngine(ROOM, wrong=("rms_norm:eager",))
    entries = swept(tmp_path, engine)
    assert engine.tried("rms_norm:eager") == []
    assert arms(entries)["rms_norm:eager"].standing == "not swept, wrong: off by 1"
    beside = next(one for one in entries if isinstance(one, SideBySide))
    assert "rms_norm:eager" not in beside.samples_s


def test_arms_run_side_by_side_at_the_largest_batch_that_all_fit_or_a_half_of_it(tmp_path):
    (beside,) = [one for one in swept(tmp_path, FakeEngine(ROOM)) if isinstance(one, SideBySide)]
    # Four arms in the room of seven: not at 7, nor at 3, but at 1.
    assert (beside.batch, beside.tried) == (1, (7, 3))
    assert beside.samples_s.keys() == ROOM.keys()
    assert beside.speed_up("rms_norm:aten", "layer_norm:aten").estimate == pytest.approx(1)


def test_side_by_side_that_fails_has_a_reason(tmp_path):
    asked = question(norms=("rms_norm",), most=1)
    (beside,) = [one for one in swept(tmp_path, FakeEngine(dict.fromkeys(ROOM, 1)), asked) if isinstance(one, SideBySide)]
    assert beside.reason == "can't allocate memory"
    assert not beside.samples_s


def test_one_arm_has_nothing_to_be_compared_with(tmp_path):
    asked = question(norms=("rms_norm",), providers=("aten",))
    assert not any(isinstance(one, SideBySide) for one in swept(tmp_path, FakeEngine(ROOM), asked))


def test_kill_by_the_kernel_is_lack_of_memory_and_another_failure_ends_the_arm(tmp_path):
    failures = {("rms_norm:aten", 4): TaskDied("killed by signal 9", 9), ("rms_norm:eager", 8): NormbenchError("integer out of range")}
    entries = swept(tmp_path, FakeEngine(ROOM, failures=failures))
    killed, broken = arms(entries)["rms_norm:aten"], arms(entries)["rms_norm:eager"]
    assert (killed.largest.batch, killed.smallest_failed.batch) == (3, 4)
    assert broken.points[-1].verdict is Verdict.FAILED
    assert [point.batch for point in broken.points] == [1, 2, 4, 8]
    assert broken.standing == "batch 8 failed, and not for lack of memory: integer out of range"


def test_check_that_dies_is_kept_with_its_reason(tmp_path):
    class Dying(FakeEngine):
        def run_task(self, task, argument):
            if isinstance(argument, CheckTask) and argument.providers == ("rms_norm:aten",):
                raise TaskDied("killed by signal 9", 9)
            return super().run_task(task, argument)

    check = next(one for one in swept(tmp_path, Dying(ROOM)) if isinstance(one, Check) and one.status is not Status.OK)
    assert (check.status, check.reason) == (Status.OOM, "while it was checked: killed by signal 9")


@pytest.mark.parametrize("count", [1, 3, 5, 9, 14, 20])
def test_sweep_that_was_cut_short_goes_on_and_asks_nothing_twice(tmp_path, count):
    class Interrupting(Observer):
        left = count

        def found(self, entry):
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

    whole = swept(tmp_path / "whole", FakeEngine(ROOM))
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path / "cut", FakeEngine(ROOM), observer=Interrupting())
    engine = FakeEngine(ROOM)
    entries = swept(tmp_path / "cut", engine, resume=True)
    assert sorted(map(repr, entries)) == sorted(map(repr, whole))
    again = FakeEngine(ROOM)
    assert swept(tmp_path / "cut", again, resume=True) == entries
    assert again.asked == []


def test_answers_that_memory_does_not_explain_end_the_arm_with_a_statement(tmp_path):
    asked = question(norms=("rms_norm",), providers=("aten",))
    (arm,) = next(iter(asked.companies.values()))
    with JOURNALS.open(tmp_path, header(asked), resume=False) as journal:
        journal.append(Check(arm=arm.key, status=Status.OK))
        journal.append(Point(arm=arm.key, batch=2, verdict=Verdict.OUT_OF_MEMORY, reason="none", tokens=128))
        journal.append(Point(arm=arm.key, batch=4, verdict=Verdict.FITS, tokens=256, samples_s=((0.1,),) * 3))
    engine = FakeEngine(ROOM)
    entries = swept(tmp_path, engine, asked, resume=True)
    assert engine.asked == []
    assert arms(entries, asked)["rms_norm:aten"].standing.startswith("batch 4 fits and the smaller 2 does not: memory alone")
