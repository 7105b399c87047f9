"""The arena in which both arms live in one process and take turns call by call on the same tensors: it sees the smallest changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from ..errors import NormbenchError
from ..measure.block import BlockResult, BlockTask
from ..measure.checking import CheckResult, CheckTask
from ..measure.plan import Plan, Schedule
from ..measure.servers import server_environment
from ..measure.worker import Worker
from .arena import TIMEOUT_S, checked
from .likeness import Account, AccountTask, code_of
from .outcome import Code
from .process import Candidate, Setup
from .standing import BlockSamples

__all__ = ["OneProcess"]

_SET_UP = f"{__package__}.process:set_up_arms"
_ACCOUNT = f"{__package__}.likeness:give_account"
_BLOCK = f"{__package__.rpartition('.')[0]}.measure.block:block"


class OneProcess:
    """Measure in forks of one server that has both arms. `setup` says what it loads; `log` receives what it prints."""

    notes: tuple[str, ...] = ("both versions took turns call by call in one process, on the same tensors",)

    def __init__(self, setup: Setup, log: Path) -> None:
        self._setup = setup
        self._log = log
        self._open = ExitStack()
        self._worker: Worker | None = None
        self._is_prepared = False

    @property
    def is_ready(self) -> bool:
        return self._is_prepared and self._worker is not None and not self._worker.is_closed

    def close(self) -> None:
        self._open.close()

    def check(self, candidate: Candidate) -> tuple[CheckResult, CheckResult]:
        if self._worker is None or self._worker.is_closed:
            self._start(())
        assert self._worker is not None
        conditions, seed = self._setup.conditions, self._setup.seed
        results = checked(self._worker, CheckTask(case=candidate.case, conditions=conditions, providers=candidate.arms, seed=seed))
        base, head = candidate.arms
        return results[base], results[head]

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        self._start(candidates)
        self._is_prepared = True

    def renew(self, candidates: Sequence[Candidate]) -> None:
        """Keep the server: of the arms of one process none has memory that the other has not."""

    def _start(self, prepared: Sequence[Candidate]) -> None:
        self._open.close()
        worker = Worker(
            setup=_SET_UP,
            setup_argument=msgspec.structs.replace(self._setup, prepared=tuple(prepared)),
            environment=server_environment(self._setup.conditions.device),
            log=self._log,
        )
        self._worker = self._open.enter_context(worker)

    def code(self, candidate: Candidate) -> Code:
        task = AccountTask(candidate=candidate, arms=candidate.arms, device=self._setup.conditions.device)
        try:
            accounts: dict[str, Account] = dict(self._answers(_ACCOUNT, task))
        except NormbenchError as error:
            return Code(text=f"the code of the arms was not compared: {error}")
        base, head = candidate.arms
        return code_of(accounts[base], accounts[head])

    def block(self, candidate: Candidate, schedule: Schedule, *, seed: int, peak_bytes: int) -> BlockSamples:
        task = BlockTask(
            case=candidate.case,
            conditions=self._setup.conditions,
            providers=candidate.arms,
            plan=Plan(),
            seed=seed,
            peak_bytes=peak_bytes,
            schedule=schedule,
        )
        (result,) = self._answers(_BLOCK, task)
        assert isinstance(result, BlockResult)
        base, head = (result.blocks[arm] for arm in candidate.arms)
        return BlockSamples(
            candidate=candidate.id,
            started_at=base.started_at,
            inner=base.inner,
            base_s=base.samples_s,
            head_s=head.samples_s,
            others_cpu_share=base.others_cpu_share,
        )

    def _answers(self, task: str, argument: Any) -> list[Any]:
        assert self._worker is not None
        return list(self._worker.run(task, argument, timeout_s=TIMEOUT_S))
