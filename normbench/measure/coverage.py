"""Do the intervals keep their word? `python -m normbench.measure.coverage`.

A nominal 95 % interval promises to contain the truth in 95 of 100 independent runs. Here whole runs are repeated, each from a fresh
server process: this package's engine, pytest-benchmark in a pytest session of its own, and torch.utils.benchmark's adaptive_autorange, on
the same cases in the same run. The truth for a run is the geometric mean of what the other runs saw, each tool's own, so that
no tool is charged for measuring something else. Printed are coverage, with its exact binomial interval, and half-widths.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

import msgspec

from ..cases.case import Case
from ..cases.conditions import Conditions
from ..host.threads import available_cores
from ..quantities.stats import ratio_interval, time_interval
from ..records.record import Record, Role
from .group import Group
from .measurer import Measurer
from .plan import Plan

__all__ = ["Seen", "covered", "main"]

PROVIDERS = ("eager", "aten")
CASES = (
    # From inside the second-level cache to far beyond the last one; both norms; a width that is no power of two.
    "op/layer_norm/forward/4x128x512/float32",
    "op/rms_norm/forward/4x128x512/float32",
    "op/layer_norm/forward/1024x768/float32",
    "op/rms_norm/forward/8x256x1024/float32",
    "op/layer_norm/forward_backward/4x128x512/float32",
)
"""With two providers each, ten (case, provider) pairs."""

_PYTEST = """
import pytest, torch
from normbench.measure.coverage import call_of
torch.set_num_threads({threads})
@pytest.mark.parametrize("case", {cases!r})
@pytest.mark.parametrize("provider", {providers!r})
def test_case(benchmark, case, provider):
    benchmark.extra_info.update(case=case, provider=provider)
    benchmark(call_of(case, provider))
"""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what one tool said of one (case, provider) in one run: seconds, and its interval."""

    run: int
    tool: str
    case: str
    provider: str
    estimate: float
    low: float
    high: float


def call_of(case_id: str, provider: str) -> Callable[[], Any]:
    """Return the timed call of a case on fresh tensors in this process."""
    import torch

    from ..oracle.problem import make_problem
    from ..registry import Registry
    from ..workloads.op import make_call

    case = Case.from_id(case_id)
    torch.set_grad_enabled(case.pass_.has_backward)
    call = make_call(make_problem(case, device="cpu", seed=0), Registry().resolve(provider).prepare(case))
    call()
    return call


def autorange(argument: tuple[str, str, int], emit: Callable[[Any], None]) -> None:
    """Emit (median, lower quartile, upper quartile) of adaptive_autorange, in seconds; a task for a worker process."""
    import torch
    from torch.utils.benchmark import Timer

    case, provider, threads = argument
    torch.set_num_threads(threads)
    timer = Timer(stmt="f()", globals={"f": call_of(case, provider)}, num_threads=threads)
    measured = timer.adaptive_autorange(max_run_time=2.0)
    emit((measured.median, measured._p25, measured._p75))


def _ours(run: int, measurer: Measurer, cases: Sequence[str], threads: int) -> list[Seen]:
    conditions = Conditions(device="cpu", threads=threads)
    seen: list[Seen] = []

    def keep(group: Group, records: Sequence[Record]) -> None:
        measured = {one.provider: one.measurement for one in records if one.role is Role.PROVIDER and one.measurement is not None}
        intervals = {(name, "normbench time"): time_interval(one) for name, one in measured.items()}
        if len(measured) == len(PROVIDERS):
            intervals["ratio to " + PROVIDERS[1], "normbench ratio"] = ratio_interval(measured[PROVIDERS[0]], measured[PROVIDERS[1]])
        for (provider, tool), found in intervals.items():
            if found.low is not None and found.high is not None:
                figures = {"estimate": found.estimate, "low": found.low, "high": found.high}
                seen.append(Seen(run=run, tool=tool, case=group.case.id, provider=provider, **figures))

    measurer.measure_all([Group.of([Case.from_id(case)], conditions, PROVIDERS) for case in cases], on_done=keep)
    return seen


def _autorange(run: int, measurer: Measurer, cases: Sequence[str], threads: int) -> list[Seen]:
    seen = []
    for case in cases:
        for provider in PROVIDERS:
            ((middle, low, high),) = measurer.run_task(f"{__package__}.coverage:autorange", (case, provider, threads))
            seen.append(
                Seen(run=run, tool="torch adaptive_autorange, IQR", case=case, provider=provider, estimate=middle, low=low, high=high)
            )
    return seen


def _pytest_benchmark(run: int, cases: Sequence[str], threads: int) -> list[Seen]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_coverage_run.py").write_text(_PYTEST.format(threads=threads, cases=list(cases), providers=PROVIDERS))
        output = Path(folder, "out.json")
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", folder, f"--benchmark-json={output}", folder]
        subprocess.run(command, check=True, capture_output=True)
        entries = json.loads(output.read_text())["benchmarks"]
    seen = []
    for entry in entries:
        stats, info = entry["stats"], entry["extra_info"]
        half = 1.96 * stats["stddev"] / math.sqrt(stats["rounds"])
        seen.append(
            Seen(
                run=run,
                tool="pytest-benchmark, mean +- 1.96 sd/sqrt(n)",
                case=info["case"],
                provider=info["provider"],
                estimate=stats["mean"],
                low=max(stats["mean"] - half, 1e-12),
                high=stats["mean"] + half,
            )
        )
    return seen


def covered(seen: Sequence[Seen]) -> dict[str, tuple[int, int, float]]:
    """Return per tool: intervals that contain the other runs' geometric mean, all intervals, and the median relative half-width."""
    result: dict[str, tuple[int, int, float]] = {}
    for tool in dict.fromkeys(one.tool for one in seen):
        mine = [one for one in seen if one.tool == tool]
        hits, total = 0, 0
        for one in mine:
            others = [other.estimate for other in mine if (other.case, other.provider) == (one.case, one.provider) and other.run != one.run]
            if others:
                truth = math.exp(fmean(map(math.log, others)))
                hits += one.low <= truth <= one.high
                total += 1
        result[tool] = hits, total, median(math.sqrt(one.high / one.low) - 1 for one in mine)
    return result


def main(arguments: list[str] | None = None) -> int:
    """Repeat whole runs and print the table; raw figures go to --out as JSON lines."""
    from scipy.stats import binomtest

    parser = argparse.ArgumentParser(prog="python -m normbench.measure.coverage", description=__doc__)
    parser.add_argument("--runs", type=int, default=12, help="whole runs, each from fresh processes")
    parser.add_argument("--budget", type=float, default=Plan().budget_s, help="seconds per case, as in normbench run")
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--case", action="append", help="case id; may be given again")
    parser.add_argument("--out", type=Path, help="file that what was seen is written to, one JSON line each")
    options = parser.parse_args(arguments)
    cases = options.case or CASES
    seen: list[Seen] = []
    start = time.monotonic()
    for run in range(options.runs):
        order = list(cases)
        Random(run).shuffle(order)
        with tempfile.TemporaryDirectory() as folder:
            plan = Plan(budget_s=options.budget, seed=run)
            with Measurer(PROVIDERS, device="cpu", plan=plan, log=Path(folder, "log")) as measurer:
                new = _ours(run, measurer, order, options.threads)
                new += _autorange(run, measurer, order, options.threads)
        new += _pytest_benchmark(run, order, options.threads)
        seen += new
        if options.out:
            with options.out.open("ab") as sink:
                sink.writelines(msgspec.json.encode(one) + b"\n" for one in new)
        sys.stderr.write(f"run {run + 1} of {options.runs}, {time.monotonic() - start:.0f} s\n")
    for tool, (hits, total, half) in covered(seen).items():
        line = f"{tool:42} half-width {half * 100:5.2f} %"
        if total:
            exact = binomtest(hits, total).proportion_ci(0.95)
            line += f"  covered {hits}/{total} = {hits / total * 100:.0f} % ({exact.low * 100:.0f} to {exact.high * 100:.0f})"
        sys.stdout.write(line + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
