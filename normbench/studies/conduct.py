"""Run a study: every trial of its plan that is not there yet, in processes of their own where trials are long, kept as they come."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path

import torch

from ..host.machine import machine_record
from ..host.threads import set_threads
from .catalogue import study
from .journal import JOURNALS, Header
from .observation import Observation, Setting, Trial
from .study import Scale, Study

__all__ = ["conduct", "observe_all"]


def observe_all(found: Study, trials: Sequence[Trial], common: Setting, *, jobs: int = 1) -> Iterator[Observation]:
    """Yield the observation of each trial as it is done; long ones run in `jobs` processes, each computing on one thread.

    One thread in every case: sums are then taken in the same order whatever the machine's cores, and a seed gives the same bits.
    """
    if not found.is_long or jobs == 1 or len(trials) < 2:
        with set_threads(1):
            for trial in trials:
                yield found.observe(trial, common)
        return
    # The longest first, so that no core waits for one at the end.
    longest_first = sorted(trials, key=lambda trial: -trial.cost)
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,))
    others = set(active_children())
    try:
        with _deaf_to_interrupts():
            futures = [pool.submit(_observe, found.name, trial, common) for trial in longest_first]
        for future in as_completed(futures):
            yield future.result()
    except BaseException:
        # Whoever stops does not wait for trials of minutes.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach: it is for the one that started them, which ends them. It is not lost meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _observe(name: str, trial: Trial, common: Setting) -> Observation:
    return study(name).observe(trial, common)


def conduct(
    found: Study,
    scale: Scale,
    path: Path,
    *,
    resume: bool,
    jobs: int,
    started: Callable[[float, float], None],
    done: Callable[[str, float], None],
) -> tuple[Observation, ...]:
    """Return the observations of the study's plan, in the plan's order, from the folder `path` or made now and kept there.

    `started` and `done` hear of costs: of the whole plan and of what was there before, then of each trial. Raises UsageError where the
    folder cannot be gone on with (see `JournalKind.open`).
    """
    plan = found.plan(scale)
    header = Header(study=found.name, common=plan.common, torch=str(torch.__version__), machine=str(machine_record()["cpu_model"]))
    with JOURNALS.open(path, header, resume=resume) as journal:
        kept = {one.key: one for one in journal.entries}
        waiting = [trial for trial in plan.trials if trial.key not in kept]
        costs = {trial.key: trial.cost for trial in plan.trials}
        started(sum(costs.values()), sum(costs.values()) - sum(trial.cost for trial in waiting))
        try:
            for observation in observe_all(found, waiting, plan.common, jobs=jobs):
                journal.append(observation)
                kept[observation.key] = observation
                done(observation.key, costs[observation.key])
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(
                f"{len(journal.entries)} of {len(plan.trials)} trials are kept in {path}, and the same words with --resume go on"
            )
            raise
        return tuple(kept[trial.key] for trial in plan.trials)
