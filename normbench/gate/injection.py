"""What a validation gives the gate to judge: two folders of providers that differ by a known amount of work, and how large that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from ..cases.case import Case
from ..cases.conditions import Conditions, Pages
from ..errors import UsageError
from ..measure.process import loaded_provider, prepare_process, prepared_function
from ..measure.servers import server_environment
from ..measure.timer import WallTimer
from ..measure.worker import Worker
from .standing import MIN_SAMPLE_S

__all__ = ["SUBJECT", "Size", "SizeTask", "extra_turns", "measure_size", "measure_sizes", "subject_spec", "write_subjects"]

SUBJECT = "subject.py"
"""Name of the file that both folders hold."""

TRIAL_TURNS = 1000
"""Turns of the empty loop that are timed to learn what one takes, beside as many of none."""

DRAWS = 5
"""Processes that a size is measured in: where a process's tensors lie moves its call by some percents."""

SAMPLES = 40

_SETUP = f"{__package__.rpartition('.')[0]}.measure.process:set_up_server"
_SIZE = f"{__package__}.injection:measure_size"
_TIMEOUT_S = 120.0

_SOURCE = '''\
"""Providers of normbench, each call followed by as many turns of an empty loop as its case is given."""

from itertools import repeat

import normbench
from normbench.registry import Registry

TURNS = {turns!r}


def subject(name):
    inner = Registry().resolve(name)

    def prepared(case):
        function, turns = inner.prepare(case), TURNS.get((name, case.id), 0)

        def followed(x, weight, bias, residual, eps):
            result = function(x, weight, bias, residual, eps)
            for _ in repeat(None, turns):
                pass
            return result

        return followed

    def supports(case, device):
        return inner.unsupported(case, device)

    tag = normbench.provider(name, norms=list(inner.implementations), per_case=True, supports=supports, settings=inner.settings)
    return tag(prepared)


{definitions}
'''


def subject_spec(provider: str) -> str:
    """Return how a gate names a provider of the two folders."""
    return f"./{SUBJECT}:{provider}"


def write_subjects(folder: Path, providers: Iterable[str], turns: Mapping[tuple[str, str], int]) -> tuple[Path, Path]:
    """Write folders `base` and `head` whose providers compute the same; head adds turns of an empty loop, by provider and case id.

    An empty loop is work that is real, as fine as 10 ns, and touches nothing that the norm's own time depends on.
    """
    definitions = "\n".join(f"subject_{number} = subject({name!r})" for number, name in enumerate(dict.fromkeys(providers)))
    for side, given in (("base", {}), ("head", dict(turns))):
        (folder / side).mkdir(parents=True)
        (folder / side / SUBJECT).write_text(_SOURCE.format(turns=given, definitions=definitions))
    return folder / "base", folder / "head"


class SizeTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask what one call of a provider takes in a process, and what a turn of an empty loop does."""

    case: Case
    conditions: Conditions
    provider: str
    seed: int


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the seconds of one call and of one turn of the loop, and from them the share that so many turns add."""

    call_s: float
    turn_s: float

    def slowdown(self, turns: int) -> float:
        """Return what `turns` add, as a share of a call (0.05: 5 %)."""
        return turns * self.turn_s / self.call_s


def extra_turns(size: Size, slowdown: float) -> int:
    """Return the turns that come nearest to a slow-down, at least one. Raises UsageError where a turn is coarser than half of it."""
    turns = round(slowdown * size.call_s / size.turn_s)
    if turns < 1:
        raise UsageError(
            f"a slow-down of {100 * slowdown:g} % of a call of {1e6 * size.call_s:.3g} us is less than the loop can add "
            f"({1e9 * size.turn_s:.0f} ns): inject more, or leave the case out"
        )
    return turns


def measure_size(task: SizeTask, emit: Callable[[Any], None]) -> None:
    """Time calls of a provider and turns of the loop, one after the other, and emit a Size. Apart from any gate and its arms."""
    from ..oracle.problem import make_problem
    from ..workloads.op import make_call, private_copies

    device = prepare_process(task.conditions, task.case, Pages.REUSED)
    provider = loaded_provider(task.provider)
    problem, _ = private_copies(make_problem(task.case, device=device, seed=task.seed), provider.mutates(task.case))
    call = make_call(problem, prepared_function(task.provider, task.case))
    timer = WallTimer()
    for _ in range(3):
        call()
    inner = max(1, round(MIN_SAMPLE_S / timer.sample(call, 1).time_s))
    calls, loops, empties = [], [], []
    for _ in range(SAMPLES):
        calls.append(timer.sample(call, inner).time_s)
        loops.append(timer.sample(_loop_of(TRIAL_TURNS), 1).time_s)
        empties.append(timer.sample(_loop_of(0), 1).time_s)
    emit(Size(call_s=median(calls), turn_s=(median(loops) - median(empties)) / TRIAL_TURNS))


def _loop_of(turns: int) -> Callable[[], None]:
    def loop() -> None:
        for _ in repeat(None, turns):
            pass

    return loop


def measure_sizes(subjects: Sequence[tuple[str, Case]], conditions: Conditions, *, seed: int, log: Path) -> dict[tuple[str, str], Size]:
    """Return the size of a call and of a turn for each (provider, case), the median over some fresh processes, by provider and case id."""
    specs = tuple(dict.fromkeys(name for name, _ in subjects))
    environment = server_environment(conditions.device)
    seen: dict[tuple[str, str], list[Size]] = {}
    with Worker(setup=_SETUP, setup_argument=specs, environment=environment, log=log) as worker:
        for draw in range(DRAWS):
            for name, case in subjects:
                task = SizeTask(case=case, conditions=conditions, provider=name, seed=seed + draw)
                seen.setdefault((name, case.id), []).extend(worker.run(_SIZE, task, timeout_s=_TIMEOUT_S))
    return {
        key: Size(call_s=median(size.call_s for size in sizes), turn_s=median(size.turn_s for size in sizes)) for key, sizes in seen.items()
    }
