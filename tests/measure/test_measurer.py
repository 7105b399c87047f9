"""Whatever a provider does, every (case, provider) asked for becomes one record, and the others are measured.

The real engine runs here, on tiny cases and with as little time as a plan allows.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from normbench.cases.case import Case
from normbench.cases.conditions import Cache, Conditions, Pages
from normbench.errors import NormbenchError, UsageError
from normbench.measure import servers
from normbench.measure.checking import Begun, CheckResult
from normbench.measure.device import describe_device
from normbench.measure.group import Group
from normbench.measure.measurer import Measurer
from normbench.measure.plan import Plan
from normbench.measure.rotating import Live
from normbench.measure.timer import WallTimer
from normbench.measure.worker import TaskTimeout
from normbench.oracle.problem import make_problem
from normbench.quantities.stats import ratio_interval
from normbench.records.record import ALLOCATE, COPY, Record, Role, Status, decode_record, encode_record
from normbench.workloads.op import make_call, private_copies

RMS = Case.make("rms_norm", "forward", (8, 64), "float32")
CPU = Conditions(device="cpu", threads=1)

# Two blocks are the fewest that have a spread between processes.
QUICK = Plan(budget_s=0.2, floor_blocks=2, min_blocks=2, max_blocks=2, max_repetitions=2, max_turns=3)

PROVIDERS = """
import os, signal, sys
import torch
import torch.nn.functional as F
import normbench

calls = 0

def rms(x, weight, eps):
    return F.rms_norm(x, x.shape[-1:], weight, eps)

def provider(**options):
    return lambda function: normbench.provider(function.__name__, norms=["rms_norm"], **options)(function)

@provider()
def right(x, weight, bias, residual, eps):
    return rms(x, weight, eps)

@provider()
def wrong(x, weight, bias, residual, eps):
    return rms(x, weight, eps) * 1.01

@provider()
def not_a_number(x, weight, bias, residual, eps):
    return rms(x, weight, eps) * float("nan")

@provider()
def raises(x, weight, bias, residual, eps):
    raise ValueError("cols 64 is not a multiple of 48\\nsecond line")

@provider()
def crashes(x, weight, bias, residual, eps):
    os.kill(os.getpid(), signal.SIGSEGV)

@provider()
def is_killed(x, weight, bias, residual, eps):
    os.kill(os.getpid(), signal.SIGKILL)

@provider()
def leaves(x, weight, bias, residual, eps):
    os._exit(0)

@provider()
def exits(x, weight, bias, residual, eps):
    sys.exit("no licence")

@provider()
def needs_too_much(x, weight, bias, residual, eps):
    raise MemoryError

@provider()
def allocates_too_much(x, weight, bias, residual, eps):
    return torch.empty(2**60)

@provider(supports=lambda case, device: "only widths above 64")
def unsupported(x, weight, bias, residual, eps):
    raise AssertionError("must not be called")

@provider()
def sneaky(x, weight, bias, residual, eps):
    y = rms(x, weight, eps)
    x.add_(1)
    return y

@provider()
def half_way(x, weight, bias, residual, eps):
    x.add_(1)
    raise RuntimeError("stopped half way")

@provider(mutates=["x", "residual"])
def in_place(x, weight, bias, residual, eps):
    if residual is not None:
        residual.add_(x)
        x.copy_(rms(residual, weight, eps))
        return x, residual
    x.copy_(rms(x, weight, eps))
    return x

@provider()
def tires(x, weight, bias, residual, eps):
    global calls
    calls += 1
    if calls > 4:
        raise RuntimeError("too many calls")
    return rms(x, weight, eps)

@provider()
def crashes_later(x, weight, bias, residual, eps):
    global calls
    calls += 1
    if calls > 4:
        os.kill(os.getpid(), signal.SIGSEGV)
    return rms(x, weight, eps)
"""

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
NAMES = [line.split("(")[0].removeprefix("def ") for line in PROVIDERS.splitlines() if "(x, weight, bias" in line]


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> dict[str, str]:
    """Return how each of the providers above is asked for."""
    path = tmp_path_factory.mktemp("providers") / "own.py"
    path.write_text(textwrap.dedent(PROVIDERS))
    return {name: f"{path}:{name}" for name in NAMES}


@pytest.fixture(scope="module")
def measurer(own, tmp_path_factory) -> Iterator[Measurer]:
    log = tmp_path_factory.mktemp("group") / "log"
    with Measurer(["aten", "eager", *own.values()], device="cpu", plan=QUICK, log=log) as measurer:
        yield measurer


def measure(measurer: Measurer, *providers: str, case: Case = RMS, conditions: Conditions = CPU) -> dict[str, Record]:
    """Return the records by provider, after seeing that there is one for each and that all can be stored."""
    group = Group.of([case], conditions, providers)
    records = measurer.measure(group)
    assert [record.provider for record in records if record.role is Role.PROVIDER] == list(providers)
    assert group.record_keys() == {record.key for record in records if record.role is Role.PROVIDER}
    assert len({record.group for record in records}) == 1
    assert all(decode_record(encode_record(record), origin="") == record for record in records)
    return {record.provider: record for record in records}


def test_providers_and_controls_are_measured_together(measurer):
    records = measure(measurer, "aten", "eager")
    assert list(records) == ["aten", "eager", COPY, ALLOCATE]
    assert {record.status for record in records.values()} == {Status.OK}
    assert [record.role for record in records.values()] == [Role.PROVIDER] * 2 + [Role.CONTROL] * 2
    shapes = {tuple(tuple(map(len, block.samples_s)) for block in record.measurement.blocks) for record in records.values()}
    assert len(shapes) == 1, "all have the same blocks, repetitions and turns"
    assert ratio_interval(records["eager"].measurement, records["aten"].measurement).low is not None
    for name in ("aten", "eager"):
        record = records[name]
        assert [entry.tensor for entry in record.accuracy] == ["y"]
        assert record.first_call_s > 0
        # y has 8 x 64 elements of 4 bytes.
        assert record.memory.peak_bytes >= 2048
        assert record.settings["grad_mode"] == "no_grad"
        assert all(block.page_faults_per_call is not None and block.host_s is None for block in record.measurement.blocks)
    assert records[COPY].accuracy is None


def test_progress_is_told_after_each_block(measurer):
    told: list[Live] = []
    done: list[Record] = []
    group = Group.of([RMS], CPU, ["aten"])
    measurer.measure_all([group], on_block=told.append, on_done=lambda _, records: done.extend(records))
    assert [live.blocks for live in told] == [1, 2]
    assert told[0].spent_s < told[1].spent_s
    assert told[0].share <= told[1].share == 1
    assert set(told[1].time_s) == {"aten"}, "controls are not anybody's result"
    assert all(len(record.measurement.blocks) == 2 for record in done)


def test_groups_take_turns_so_that_each_ones_blocks_are_spread_over_time(measurer):
    cases = [RMS, Case.make("layer_norm", "forward", (8, 64), "float32")]
    groups = [Group.of([case], CPU, ["aten"]) for case in cases]
    told: list[tuple[str, str]] = []
    measurer.measure_all(
        groups,
        on_start=lambda group: told.append(("start", group.case.norm.value)),
        on_block=lambda live: told.append(("block", live.group.case.norm.value)),
        on_done=lambda group, _: told.append(("done", group.case.norm.value)),
    )
    rms, layer = "rms_norm", "layer_norm"
    checks = [("start", rms), ("start", layer)]
    assert told == [*checks, ("block", rms), ("block", layer), ("block", rms), ("done", rms), ("block", layer), ("done", layer)]


FAULTS = {
    "wrong": (Status.WRONG, "y is off by up to"),
    "not_a_number": (Status.WRONG, "y has 512 values that are not finite"),
    # The text alone, of one line.
    "raises": (Status.ERROR, "ValueError: cols 64 is not a multiple of 48"),
    "crashes": (Status.ERROR, "while it was checked: the process was killed by signal 11, SIGSEGV"),
    # What the kernel's out-of-memory killer does.
    "is_killed": (Status.OOM, "SIGKILL (most likely out of memory)"),
    "leaves": (Status.ERROR, "the process exited with code 0"),
    "exits": (Status.ERROR, "SystemExit: no licence"),
    "needs_too_much": (Status.OOM, "ran out of memory: (no message)"),
    "allocates_too_much": (Status.OOM, "ran out of memory: "),
    "unsupported": (Status.UNSUPPORTED, "only widths above 64"),
    "sneaky": (Status.WRONG, "overwrites its input x without saying so"),
    "half_way": (Status.ERROR, "RuntimeError: stopped half way"),
    # Right at first, and failing when called often.
    "tires": (Status.ERROR, "while it was measured: RuntimeError: too many calls"),
    "crashes_later": (Status.ERROR, "while it was measured: the process was killed by signal 11, SIGSEGV"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_provider_is_told_and_the_others_are_measured(measurer, own, name):
    status, reason = FAULTS[name]
    # One before it, whose result is there when it fails, and one after it.
    records = measure(measurer, "aten", own[name], own["right"])
    faulty = records[own[name]]
    assert faulty.status is status
    assert reason in faulty.reason
    assert faulty.reason.count("\n") == 0
    assert faulty.measurement is None, "what is not right is not timed"
    for good in ("aten", own["right"]):
        assert (records[good].status, records[good].reason) == (Status.OK, None)
        assert records[good].measurement is not None


def test_several_faults_at_once(measurer, own):
    names = [own[name] for name in ("crashes", "raises", "crashes_later", "right", "tires", "wrong", "leaves")]
    records = measure(measurer, *names)
    statuses = [records[name].status for name in names]
    assert statuses == [Status.ERROR, Status.ERROR, Status.ERROR, Status.OK, Status.ERROR, Status.WRONG, Status.ERROR]


def test_no_provider_left_leaves_nothing_to_time(measurer, own):
    records = measure(measurer, own["wrong"], own["raises"])
    assert set(records) == {own["wrong"], own["raises"]}, "no control without a provider"
    assert all(record.measurement is None for record in records.values())


def test_wrong_verdict_keeps_the_figures(measurer, own):
    (entry,) = measure(measurer, own["wrong"])[own["wrong"]].accuracy
    assert not entry.passed
    assert entry.error > entry.tolerance
    (entry,) = measure(measurer, own["not_a_number"])[own["not_a_number"]].accuracy
    assert (entry.nonfinite, entry.error, entry.max_abs) == (512, None, None), "no number is null, never NaN"


# An add_rms_norm in place that is called again and again on what it left behind doubles the residual every few calls.
@pytest.mark.parametrize("case_id", ["op/add_rms_norm/forward/8x64/float32", "op/rms_norm/forward/8x64/float32"])
def test_input_that_is_overwritten_is_restored_before_each_call(measurer, own, case_id):
    case = Case.from_id(case_id)
    others = ["eager"] if case.residual else [own["right"]]
    records = measure(measurer, own["in_place"], *others, case=case)
    assert {record.status for record in records.values()} == {Status.OK}
    assert {block.inner for block in records[own["in_place"]].measurement.blocks} == {1}, "a second call would need a second restoration"
    assert min(block.inner for block in records[others[0]].measurement.blocks) > 1


def test_hundred_calls_in_place_see_the_same_inputs():
    seen = []

    def add_rms_norm(x, weight, bias, residual, eps):
        seen.append((float(x.square().mean().sqrt()), float(residual.square().mean().sqrt())))
        residual.add_(x)
        x.copy_(torch.nn.functional.rms_norm(residual, residual.shape[-1:], weight, eps))
        return x, residual

    case = Case.make("rms_norm", "forward", (64, 64), "float32", residual=True)
    problem = make_problem(case, device="cpu", seed=0)
    pristine = replace(problem, x=problem.x.clone(), residual=problem.residual.clone())
    own, restore = private_copies(problem, ("x", "residual"))
    call = make_call(own, add_rms_norm)
    for _ in range(100):
        restore()
        WallTimer().sample(call, 1)
    assert len(seen) == 100
    assert len(set(seen)) == 1, "without restoration the residual would have grown from 1 to 100"
    assert torch.equal(problem.x, pristine.x)
    assert torch.equal(problem.residual, pristine.residual)


# No rows, and rows of nothing.
@pytest.mark.parametrize("shape", [(0, 64), (3, 0)])
@pytest.mark.parametrize("pass_", ["forward", "forward_backward"])
def test_empty_case_is_checked_and_not_timed(measurer, own, shape, pass_):
    case = Case.make("rms_norm", pass_, shape, "float32")
    records = measure(measurer, "aten", own["raises"], case=case)
    assert records["aten"].status is Status.SKIPPED
    assert records["aten"].reason.startswith("empty")
    assert records["aten"].accuracy
    assert all(entry.passed for entry in records["aten"].accuracy)
    assert records[own["raises"]].status is Status.ERROR
    assert COPY not in records


def test_case_that_cannot_fit_is_not_started(measurer, own):
    # 4 TiB of x alone; a provider that is started dies.
    case = Case.make("rms_norm", "forward", (2**20, 2**20), "float32")
    records = measure(measurer, "aten", own["crashes"], case=case)
    assert {record.status for record in records.values()} == {Status.OOM}
    assert all("predicted to need" in record.reason and "GiB are available" in record.reason for record in records.values())


def test_cold_calls_are_single_and_fresh_pages_are_counted(measurer):
    # 1 MiB of output are 256 pages; beyond 128 KiB each call gets new ones.
    case = Case.make("rms_norm", "forward", (256, 1024), "float32")
    cold = measure(measurer, "aten", case=case, conditions=Conditions(device="cpu", threads=1, cache=Cache.COLD))
    assert {block.inner for record in cold.values() for block in record.measurement.blocks} == {1}
    faults = {}
    for pages in Pages:
        records = measure(measurer, "aten", case=case, conditions=Conditions(device="cpu", threads=1, pages=pages))
        faults[pages] = [block.page_faults_per_call for block in records["aten"].measurement.blocks]
    assert min(faults[Pages.FRESH]) >= 0.9 * 256
    assert max(faults[Pages.REUSED]) < 64


def state() -> tuple[int, bool, str | None]:
    return torch.get_num_threads(), torch.is_grad_enabled(), os.environ.get("CUDA_VISIBLE_DEVICES")


def test_threads_are_set_in_the_tasks_alone(measurer):
    before = state()
    for threads in (1, 2):
        conditions = Conditions(device="cpu", threads=threads)
        assert measurer.run_task("measure.group_tasks:emit_threads", (RMS, conditions)) == [threads]
        assert measure(measurer, "aten", conditions=conditions)["aten"].status is Status.OK
    assert state() == before
    assert measurer.run_task("measure.group_tasks:emit_threads", None) == [1], "the server itself stays as it was"


class ScriptedWorker:
    """Stand in for a worker that answers from a script and may end while it does."""

    script: list[tuple[list, Exception | None]] = []
    started = 0

    def __init__(self, **options) -> None:
        type(self).started += 1
        self.is_closed = False

    def run(self, task, argument, *, timeout_s):
        emitted, error = self.script.pop(0)
        yield from emitted
        if error is not None:
            self.is_closed = True
            raise error

    def __enter__(self):
        return self

    def __exit__(self, *exc_info) -> None:
        pass


# A provider that hangs is ended with its server; the out-of-memory killer may choose the server itself.
@pytest.mark.parametrize(
    "error", [TaskTimeout("no answer for 900 s"), NormbenchError("the measuring process ended unexpectedly")], ids=["timeout", "death"]
)
def test_server_that_is_gone_is_started_again_for_the_others(monkeypatch, tmp_path, error):
    case = Case.make("rms_norm", "forward", (0, 64), "float32")
    script = [
        ([{"type": "cpu"}], None),
        ([Begun("aten"), Begun("hangs")], error),
        ([Begun("aten"), Begun(None), CheckResult(provider="aten", status=Status.OK)], None),
    ]
    monkeypatch.setattr(ScriptedWorker, "script", script)
    monkeypatch.setattr(ScriptedWorker, "started", 0)
    monkeypatch.setattr(servers, "Worker", ScriptedWorker)
    with Measurer(["aten", "hangs"], device="cpu", plan=QUICK, log=tmp_path / "log") as measurer:
        records = measure(measurer, "aten", "hangs", case=case)
    assert records["hangs"].status is Status.ERROR
    assert records["hangs"].reason == f"while it was checked: {error}"
    assert records["aten"].status is Status.SKIPPED
    assert (ScriptedWorker.started, script) == (2, [])


def test_unknown_provider_is_refused_at_once(tmp_path):
    with pytest.raises(UsageError, match="'no_such_provider' is unknown"):
        Measurer(["no_such_provider"], device="cpu", plan=QUICK, log=tmp_path / "log")


@pytest.mark.parametrize(
    ("device", "fault"),
    [
        ("gpu", "'gpu' is not a device name"),
        ("meta", "of type 'meta'; normbench measures cpu and cuda"),
        pytest.param("cuda", "finds no CUDA device here; use cpu", marks=without_gpu),
    ],
)
def test_device_that_is_not_there_is_refused(device, fault):
    with pytest.raises(UsageError, match=fault):
        describe_device(device, lambda value: None)


@pytest.fixture(scope="module")
def compiling(tmp_path_factory) -> Iterator[Measurer]:
    plan = Plan(budget_s=0.1, floor_blocks=1, min_blocks=1, max_blocks=1, max_repetitions=1, max_turns=2)
    with Measurer(["compile", "aten"], device="cpu", plan=plan, log=tmp_path_factory.mktemp("compiling") / "log") as measurer:
        yield measurer


def test_order_of_cases_does_not_change_what_is_compiled(compiling):
    # Three sizes there and back in one process. Compiled by one function, the second size would turn dynamic, and the first be looked
    # up on the way back: two graphs, or three, not one for each.
    ids = [Case.make("rms_norm", "forward", (8, cols), "float32").id for cols in (96, 64, 80)]
    ((graphs, results),) = compiling.run_task("measure.group_tasks:emit_compilations", ids + ids[::-1])
    assert graphs == 6
    assert results == results[::-1], "and the way back gives the bits of the way there"


def test_backward_of_a_compiled_norm_can_be_repeated(compiling):
    # A compiled graph that gives its saved buffers away refuses the second backward. LayerNorm has one gradient more than RMSNorm.
    case = Case.make("layer_norm", "backward", (8, 64), "float32")
    record = measure(compiling, "compile", "aten", case=case)["compile"]
    assert record.status is Status.OK
    assert record.settings["donated_buffer"] is False
    assert record.settings["retain_graph"] is True
    assert [entry.tensor for entry in record.accuracy] == ["y", "dx", "dweight", "dbias"]
    assert compiling.run_task("measure.group_tasks:emit_repeated_backward", case.id) == [True]
