"""One gate run: both arms checked, prepared and measured in turns, block after block, until every case is decided.

An arm that is wrong, fails, dies or says nothing for too long ends its own case; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from ..cases.conditions import Cache, Conditions, Pages
from ..errors import NormbenchError
from ..measure.plan import Schedule
from .arena import ArenaMaker
from .decide import Decision, Supply, Verdict, decide, decide_once
from .one_process import OneProcess
from .outcome import Outcome, RunEnd, conclude
from .policy import Policy, require_attainable
from .process import Candidate, Setup
from .standing import BlockCost, BlockSamples, Standing, block_shares
from .trees import Tree

__all__ = ["Observer", "Question", "conduct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """Hear how a run goes: `phase(what, total)` begins a stretch of work, `step(what)` ends a part of it."""

    phase: Callable[[str, int], None] = lambda what, total: None
    step: Callable[[str], None] = lambda what: None
    block: Callable[[BlockSamples], None] = lambda samples: None
    decided: Callable[[str, Decision], None] = lambda candidate, decision: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Say what is compared, how, and for how long. `controls` are candidates that neither side can change.

    `arena` makes the processes that both arms meet in.
    """

    base: Tree
    head: Tree
    candidates: tuple[Candidate, ...]
    controls: tuple[Candidate, ...]
    conditions: Conditions
    policy: Policy
    budget_s: float
    seed: int
    log: Path
    allowed_missing: tuple[str, ...] = ()
    arena: ArenaMaker = OneProcess
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    @property
    def setup(self) -> Setup:
        """Return what processes of this run load."""
        return Setup(
            base=self.base,
            head=self.head,
            specs=tuple(dict.fromkeys((one.base_spec, one.head_spec) for one in self.candidates)),
            conditions=self.conditions,
            seed=self.seed,
        )


def conduct(question: Question, observer: Observer) -> Outcome:
    """Run the gate and return its outcome. Ctrl-C ends it early, and what is then undecided makes it no pass.

    Raises UsageError when the policy could never turn red for so many cases, or a tree has no such provider.
    """
    require_attainable(question.policy, len(question.candidates) + len(question.controls))
    run = _Run(question, observer)
    end = RunEnd.COMPLETE
    try:
        run.check()
        run.measure()
    except KeyboardInterrupt:
        end = RunEnd.INTERRUPTED
    finally:
        run.close()
    return run.outcome(end)


class _Run:
    def __init__(self, question: Question, observer: Observer) -> None:
        self._question = question
        self._observer = observer
        self._started_s = question.clock()
        self._cases = [Standing(candidate=candidate) for candidate in question.candidates]
        self._controls = [Standing(candidate=candidate) for candidate in question.controls]
        self._rng = Random(question.seed)
        self._renewal_s = 0.0
        self._arena = question.arena(question.setup, question.log)

    def close(self) -> None:
        self._arena.close()

    def check(self) -> None:
        """Check both arms of every candidate against float64 and settle those that cannot be compared."""
        everyone = [*self._cases, *self._controls]
        self._observer.phase("loading both arms, checking against float64", len(everyone))
        for standing in everyone:
            standing.settle(*self._arena.check(standing.candidate))
            self._observer.step(standing.candidate.id)
            if standing.decision is not None:
                self._observer.decided(standing.candidate.id, standing.decision)

    def measure(self) -> None:
        """Take blocks in rounds, every open candidate once a round in random order, until all are decided or the budget is out."""
        if not any(one.is_open for one in self._cases):
            return
        self._observer.phase("preparing", 0)
        self._calibrate()
        last = self._question.policy.looks[-1]
        self._observer.phase("measuring", sum(one.is_open for one in self._cases) * last)
        supply = Supply.OPEN
        for _ in range(last):
            taking = self._still_open()
            if not any(one.is_open for one in self._cases):
                break
            if self._elapsed_s() + self._renewal_s + sum(one.block_s for one in taking) > self._question.budget_s:
                supply = Supply.CLOSED
                break
            self._renew()
            self._rng.shuffle(taking)
            for standing in taking:
                self._take_block(standing)
                if standing.is_open and standing not in self._controls:
                    self._decide(standing, Supply.OPEN)
        for standing in self._cases:
            if standing.is_open:
                self._decide(standing, supply)
        for standing in self._controls:
            if standing.is_open:
                # A control is judged once, on all its blocks: it must see as much of the machine as the slowest case.
                standing.decision = decide_once(self._question.policy, standing.logs, cases=self._sharing)
                self._observer.decided(standing.candidate.id, standing.decision)

    def _still_open(self) -> list[Standing]:
        return [one for one in [*self._cases, *self._controls] if one.is_open]

    def _prepare(self) -> None:
        self._arena.prepare([one.candidate for one in self._still_open()])

    def _renew(self) -> None:
        start = self._question.clock()
        self._arena.renew([one.candidate for one in self._still_open()])
        self._renewal_s = self._question.clock() - start

    @property
    def _sharing(self) -> int:
        """Return how many share the error rate: all that were asked for, whatever became of them."""
        return len(self._question.candidates) + len(self._question.controls)

    def _elapsed_s(self) -> float:
        return self._question.clock() - self._started_s

    def _decide(self, standing: Standing, supply: Supply) -> None:
        decision = decide(self._question.policy, standing.logs, cases=self._sharing, supply=supply)
        if decision.verdict is not Verdict.UNDECIDED:
            standing.decision = decision
            self._observer.decided(standing.candidate.id, decision)

    def _calibrate(self) -> None:
        """Fix for every candidate, from base alone, how many calls a sample has, and from the budget how long its blocks are."""
        everyone = self._still_open()
        self._prepare()
        for standing in self._cases:
            if standing.is_open:
                standing.code = self._arena.code(standing.candidate)
        self._renew()
        costs = {one.candidate.id: cost for one in everyone if (cost := self._cost(one)) is not None}
        everyone = [one for one in everyone if one.is_open]
        round_s = max((self._question.budget_s - self._elapsed_s()) / self._question.policy.looks[-1] - self._renewal_s, 0.0)
        conditions = self._question.conditions
        single = conditions.cache is Cache.COLD or conditions.pages is Pages.FRESH
        shares = block_shares([costs[one.candidate.id] for one in everyone], round_s, single=single)
        for standing, share_s in zip(everyone, shares, strict=True):
            standing.schedule = costs[standing.candidate.id].schedule(standing.candidate.arms, share_s, single=single)
            standing.block_s = share_s

    def _cost(self, standing: Standing) -> BlockCost | None:
        """Return what a candidate's blocks cost, from blocks with one draw of tensors and with three; None when they fail."""
        took_s: dict[int, float] = {}
        samples: list[float] = []
        # The first block of a process meets what no later one does: 3 s in place of 0.1 were seen.
        for repetitions in (1, 3, 1):
            standing.schedule = Schedule(repetitions=repetitions, turns=1, inner=dict.fromkeys(standing.candidate.arms, 1))
            start = self._question.clock()
            block = self._run_block(standing, seed=0)
            if block is None:
                return None
            took_s[repetitions] = self._question.clock() - start
            samples += [sample for repetition in block.base_s for sample in repetition]
        call_s = median(samples)
        draw_s = max((took_s[3] - took_s[1]) / 2 - 2 * call_s, 0.0)
        return BlockCost(call_s=call_s, draw_s=draw_s, start_s=max(took_s[1] - draw_s - 2 * call_s, 0.0))

    def _take_block(self, standing: Standing) -> None:
        start = self._question.clock()
        block = self._run_block(standing, seed=self._rng.randrange(2**31))
        if block is None:
            return
        standing.logs.append(block.log_ratio)
        standing.block_s = self._question.clock() - start
        self._observer.block(block)
        self._observer.step(standing.candidate.id)

    def _run_block(self, standing: Standing, *, seed: int) -> BlockSamples | None:
        """Return a block of a candidate, or None when its process failed, which settles the candidate."""
        assert standing.schedule is not None
        if not self._arena.is_ready:
            self._prepare()
        try:
            return self._arena.block(standing.candidate, standing.schedule, seed=seed, peak_bytes=standing.peak_bytes)
        except NormbenchError as error:
            standing.end(Verdict.FAILED, f"a block failed: {error}")
        assert standing.decision is not None
        self._observer.decided(standing.candidate.id, standing.decision)
        return None

    def outcome(self, end: RunEnd) -> Outcome:
        """Conclude from what is decided; what is not is undecided."""
        question = self._question
        nowhere = [one.nowhere for one in self._cases if one.nowhere is not None]
        return conclude(
            question.policy,
            [one.result for one in self._cases if one.nowhere is None],
            [one.result for one in self._controls if one.nowhere is None] if end is RunEnd.COMPLETE else [],
            end=end,
            allowed_missing=question.allowed_missing,
            notes=[*dict.fromkeys([*question.base.notes, *question.head.notes]), *self._arena.notes, *nowhere],
        )
