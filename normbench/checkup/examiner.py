"""The check-up at work: lanes of providers side by side, each task in a process of its own, a verdict for all that was asked."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from ..cases.adversary import Trial
from ..cases.case import Case, Norm, Pass
from ..cases.conditions import Conditions
from ..errors import NormbenchError
from ..kernels.interpret import fewer_rows, shrink
from ..measure.checking import CheckResult, CheckTask, Purpose, drained
from ..measure.servers import Servers
from ..records.record import Status
from ..registry import Registry
from .plan import Examination
from .verdict import Verdict

__all__ = ["Lane", "examine", "make_lanes"]

_CHECK = "measure.checking:check"
_DEVICE = "measure.device:describe_device"

MAX_ELEMENTS = {"cpu": 2**21, "cuda": 2**26}
"""Elements checked of a case: a second or so of float64 on either. Rows beyond differ from those before in nothing but their number."""

TIMEOUT_S = 300.0

TRIALS, INTERPRETED_TRIALS = 5, 2
"""Trials of an examination, ordinary tensors first: of who runs at full speed, and in Triton's interpreter, where a small call takes a
tenth of a second. Which adversaries they are changes from one to the next."""

COMPILED_EXAMINATIONS = 28
"""Examinations of a provider that compiles for each: 3 s apiece, and the first ones hold the most pairs of choices."""

INTERPRETED_ELEMENTS = 2**15
"""Elements of a case that the interpreter gets through in seconds: a backward of 72704 columns, whose column sums are thousands of small
programs, is half a minute."""
_OF_LARGER = f"; of those with more than {INTERPRETED_ELEMENTS} elements one of each norm and pass"
WIDE_COLS = 2**15
"""A wider row fits no program of any kernel as a whole: looped kernels are others, and another one for each norm and pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Name providers that are examined one after the other in the same processes, and with what."""

    providers: tuple[str, ...]
    examinations: tuple[Examination, ...]
    in_interpreter: bool = False
    note: str = ""
    """What of the examinations asked for is left out, in words; empty when nothing is."""

    @property
    def size(self) -> int:
        """Return the number of verdicts that come of it."""
        return len(self.providers) * sum(len(one.trials) for one in self.examinations)


def make_lanes(providers: Sequence[str], examinations: Sequence[Examination], *, device: str, thorough: bool) -> list[Lane]:
    """Return who is examined with what: who compiles, who is interpreted and all others side by side, none waiting for a slower one.

    Unless `thorough` is asked for, the slow ones take part of the examinations. Raises UsageError for a provider that cannot be loaded.
    """
    registry = Registry()
    kinds: dict[str, list[str]] = {"others": [], "compiled": [], "interpreted": []}
    for spec in providers:
        provider = registry.resolve(spec)
        interpreted = device == "cpu" and any(one.interpret_on_cpu for one in provider.implementations.values())
        kinds["interpreted" if interpreted else "compiled" if provider.name == "compile" else "others"].append(spec)
    everything = tuple(examinations)
    taken = dict.fromkeys(kinds, everything)
    if not thorough:
        taken["others"] = tuple(_first_trials(one, TRIALS) for one in everything)
        taken["compiled"] = taken["others"][:COMPILED_EXAMINATIONS]
        taken["interpreted"] = _affordable(everything)
    lanes = [
        Lane(
            providers=tuple(specs),
            examinations=taken[kind],
            in_interpreter=kind == "interpreted",
            note=_left_out(taken[kind], everything) + (_OF_LARGER if taken[kind] is not everything and kind == "interpreted" else ""),
        )
        for kind, specs in kinds.items()
    ]
    return [lane for lane in lanes if lane.providers]


def _first_trials(one: Examination, count: int) -> Examination:
    return Examination(case=one.case, trials=one.trials[:count])


def _affordable(examinations: Sequence[Examination]) -> tuple[Examination, ...]:
    """Return what the interpreter gets through in minutes: two trials of a small case, and one large case of each norm and pass."""
    larger = [one for one in examinations if fewer_rows(one.case).numel > INTERPRETED_ELEMENTS]
    kinds: dict[tuple[Norm, Pass], list[Examination]] = {}
    for one in larger:
        kinds.setdefault((one.case.norm, one.case.pass_), []).append(one)
    chosen = [min(same, key=lambda one: (one.case.cols <= WIDE_COLS, fewer_rows(one.case).numel)) for same in kinds.values()]
    return tuple(
        _first_trials(one, 1 if one in chosen else INTERPRETED_TRIALS) for one in examinations if one not in larger or one in chosen
    )


def _left_out(taken: Sequence[Examination], everything: Sequence[Examination]) -> str:
    if taken == everything:
        return ""
    trials, all_trials = (sum(len(one.trials) for one in some) for some in (taken, everything))
    return f"{trials} of {all_trials} trials, of {len(taken)} of {len(everything)} cases"


def examine(lanes: Sequence[Lane], *, device: str, seed: int, observe: Callable[[Verdict], None]) -> list[Verdict]:
    """Examine all lanes at once and return the verdicts, those of a lane in order; `observe` is told of each as it comes.

    A provider that takes its process down, or says nothing for five minutes, gets a verdict, too. Raises UsageError for a device that
    is not there or a provider that cannot be loaded.
    """
    lock = threading.Lock()

    def tell(verdict: Verdict) -> None:
        with lock:
            observe(verdict)

    with tempfile.TemporaryDirectory(prefix="normbench-check-") as folder, ThreadPoolExecutor(max_workers=len(lanes)) as pool:
        works = [_Work(lane, device, seed, Path(folder) / f"lane-{place}.log", tell) for place, lane in enumerate(lanes)]
        waiting = [pool.submit(work.run) for work in works]
        try:
            wait(waiting, return_when=FIRST_EXCEPTION)
            done = [future.result() for future in waiting if future.done()]
            return [verdict for verdicts in done for verdict in verdicts]
        finally:
            # After Ctrl-C or a refusal the other lanes must not run on.
            for work in works:
                work.stop()


class _Work:
    """Examine one lane."""

    def __init__(self, lane: Lane, device: str, seed: int, log: Path, tell: Callable[[Verdict], None]) -> None:
        self._lane = lane
        self._device = device
        self._seed = seed
        self._tell = tell
        self._servers = Servers(lane.providers, device=device, log=log, timeout_s=TIMEOUT_S)
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()
        self._servers.close()

    def run(self) -> list[Verdict]:
        # Apart from what follows: what goes wrong here is wrong with what was asked for.
        list(self._run_task(_DEVICE, self._device))
        verdicts = []
        for one in self._lane.examinations:
            for verdict in self._examine(one):
                verdicts.append(verdict)
                self._tell(verdict)
        self._servers.close()
        return verdicts

    def _run_task(self, task: str, argument: object) -> Iterator[object]:
        if self._stopped.is_set():
            raise NormbenchError("stopped")
        package = __package__.rpartition(".")[0]
        return self._servers.run(f"{package}.{task}", argument, interpreter=self._lane.in_interpreter)

    def _examine(self, one: Examination) -> list[Verdict]:
        case = fewer_rows(one.case) if self._lane.in_interpreter else self._bounded(one.case)
        # Values that need a second row cannot be tried on a case that is left with one.
        trials = tuple(trial for trial in one.trials if trial.fits(case))
        reason = f"needs more than the {case.rows} of {one.case.rows} rows that are checked"
        found = {
            (trial, provider): CheckResult(provider=provider, trial=trial, status=Status.SKIPPED, reason=reason)
            for trial in one.trials
            for provider in self._lane.providers
            if trial not in trials
        }
        waiting = [(trial, provider) for trial in trials for provider in self._lane.providers]
        # All at once, then what a crash has left, a trial at a time.
        batch = trials
        while waiting:
            asked = tuple(provider for trial, provider in waiting if trial == batch[0])
            for result in self._attempt(case, asked, batch):
                found[result.trial, result.provider] = result
            waiting = [pair for pair in waiting if pair not in found]
            batch = (waiting[0][0],) if waiting else ()
        return [
            Verdict(
                provider=provider,
                case=one.case,
                trial=trial,
                status=result.status,
                reason=result.reason,
                rows_checked=case.rows,
                in_interpreter=self._lane.in_interpreter,
                is_repeatable=result.is_repeatable,
                accuracy=result.accuracy or (),
            )
            for (trial, provider), result in sorted(found.items(), key=lambda item: one.trials.index(item[0][0]))
        ]

    def _attempt(self, case: Case, providers: tuple[str, ...], trials: tuple[Trial, ...]) -> list[CheckResult]:
        """Return what became of providers in trials as far as their process lived, and an error for who was at work when it died."""
        task = CheckTask(
            case=case,
            conditions=Conditions(device=self._device, threads=1),
            providers=providers,
            seed=self._seed,
            trials=trials,
            purpose=Purpose.VERDICT,
        )
        results, at_work, error = drained(self._run_task(_CHECK, task))
        if error is not None:
            if self._stopped.is_set():
                raise error
            told = {(result.trial, result.provider) for result in results}
            left = [(trial, provider) for trial in trials for provider in providers if (trial, provider) not in told]
            # Trials go one after the other: who was at work in the first unfinished one is at fault, or all that are left in it.
            unfinished = [pair for pair in left if pair[0] == left[0][0]]
            at_fault = [pair for pair in unfinished if pair[1] == at_work] or unfinished
            results += [CheckResult(provider=name, trial=trial, status=Status.ERROR, reason=str(error)) for trial, name in at_fault]
        return results

    def _bounded(self, case: Case) -> Case:
        most = MAX_ELEMENTS.get(self._device.partition(":")[0], MAX_ELEMENTS["cpu"])
        return case if case.numel <= most else shrink(case, max(1, most // case.cols))
