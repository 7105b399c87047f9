"""What the harness itself costs inside the timed region: `python -m normbench.measure.overhead`.

An empty call, once as a Python function and once as a C callable (what the op tier times is a `functools.partial`), is timed by this
package's timer, by pytest-benchmark's runner and by torch.utils.benchmark.Timer, taking turns in one process. The figure is the time of
one call as each tool would report it, in nanoseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from operator import truth
from random import Random
from time import perf_counter
from types import SimpleNamespace
from typing import Any

from ..quantities.stats import Interval, ratio_interval, time_interval
from ..records.measurement import Block, Measurement, StopReason
from .timer import WallTimer

__all__ = ["main", "measure_overhead"]

_CALLS = 20_000
_OURS = "normbench"


def _empty() -> None:
    pass


EMPTY_CALLS: dict[str, Callable[[], Any]] = {"Python function": _empty, "C callable": partial(truth, None)}


def _tools(call: Callable[[], Any]) -> dict[str, Callable[[int], float]]:
    """Return for each tool a function that times `count` empty calls its own way and returns seconds per call."""
    from pytest_benchmark.fixture import BenchmarkFixture
    from torch.utils.benchmark import Timer

    ours, torch_timer = WallTimer(), Timer(stmt="f()", globals={"f": call})
    # The runner is what pytest-benchmark puts around the function it times; it has no public name.
    runner = BenchmarkFixture._make_runner(SimpleNamespace(_timer=perf_counter, _disable_gc=False), call, (), {})  # type: ignore[no-untyped-call, arg-type]

    def plain(count: int) -> float:
        start = perf_counter()
        for _ in range(count):
            call()
        return (perf_counter() - start) / count

    return {
        _OURS: lambda count: ours.sample(call, count).time_s,
        "plain for loop": plain,
        "pytest-benchmark": lambda count: float(runner(range(count))) / count,
        "torch.utils.benchmark.Timer": lambda count: float(torch_timer.timeit(count).median),
        "normbench, one call a sample": lambda count: ours.sample(call, 1).time_s,
        "pytest-benchmark, one call a round": lambda count: float(runner(None)[0]),
    }


def measure_overhead(
    call: Callable[[], Any], repetitions: int = 20, turns: int = 11, seed: int = 0
) -> dict[str, tuple[Interval, Interval]]:
    """Return per tool the seconds of one empty call and its ratio to this package's, both with 95 % intervals."""
    tools = _tools(call)
    rng = Random(seed)
    samples: dict[str, list[tuple[float, ...]]] = {name: [] for name in tools}
    for _ in range(repetitions):
        taken: dict[str, list[float]] = {name: [] for name in tools}
        for _ in range(turns):
            order = list(tools)
            rng.shuffle(order)
            for name in order:
                taken[name].append(tools[name](_CALLS))
        for name, values in taken.items():
            samples[name].append(tuple(values))
    measured = {
        name: Measurement(
            timer="perf_counter", blocks=(Block(started_at=0.0, inner=_CALLS, samples_s=tuple(values)),), stop=StopReason.BLOCKS
        )
        for name, values in samples.items()
    }
    return {name: (time_interval(one), ratio_interval(one, measured[_OURS])) for name, one in measured.items()}


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or JSON with --json."""
    parser = argparse.ArgumentParser(prog="python -m normbench.measure.overhead", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repetitions", type=int, default=20)
    options = parser.parse_args(arguments)
    results = {kind: measure_overhead(call, options.repetitions) for kind, call in EMPTY_CALLS.items()}
    if options.json:
        rows = {
            kind: {name: {"ns": time.estimate * 1e9, "ratio": ratio.estimate} for name, (time, ratio) in by_tool.items()}
            for kind, by_tool in results.items()
        }
        sys.stdout.write(json.dumps(rows, allow_nan=False) + "\n")
        return 0
    width = max(len(name) for by_tool in results.values() for name in by_tool)
    for kind, by_tool in results.items():
        sys.stdout.write(f"empty {kind}\n")
        for name, (time, ratio) in by_tool.items():
            bounds = f"({ratio.low:.2f} to {ratio.high:.2f})" if ratio.low is not None and ratio.high is not None else ""
            sys.stdout.write(f"  {name:{width}}  {time.estimate * 1e9:7.1f} ns a call  {ratio.estimate:5.2f} x normbench {bounds}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
