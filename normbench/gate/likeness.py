"""Whether both arms of a case are the same program: the task that tells what an arm runs, and the comparison of two such accounts.

A file that is the same byte by byte is the same program. On CUDA two files may differ, in a comment say, and still give the same
machine code, launched the same way: then, too, there is nothing to tell apart on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import NormbenchError
from .launched import Work, compute_capability, work_of
from .outcome import Code, Sameness
from .process import Candidate, loaded_arm
from .sources import Difference, Sources

__all__ = ["Account", "AccountTask", "code_of", "give_account"]


class AccountTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask what arms of one candidate run; `device` is the name of the torch device they are measured on."""

    candidate: Candidate
    arms: tuple[str, ...]
    device: str


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Tell what an arm runs: its files and, on CUDA, what it makes the device do, or why that is not known."""

    sources: Sources
    work: Work | None = None
    unknown: str | None = None


def give_account(task: AccountTask, emit: Callable[[Any], None]) -> None:
    """Emit ("arm name", Account) for each arm, in order. For a process whose arms were prepared: what they import late counts, too."""
    for name in task.arms:
        arm = loaded_arm(name)
        work, unknown = None, None
        if task.device.partition(":")[0] == "cuda":
            try:
                work = work_of(arm, task.candidate.case, compute_capability(task.device))
            except NormbenchError as error:
                unknown = str(error)
        # Only now: the call above may have imported more.
        emit((name, Account(sources=arm.sources(), work=work, unknown=unknown)))


def code_of(base: Account, head: Account) -> Code:
    """Compare what both arms run."""
    difference = Difference.between(base.sources, head.sources)
    if difference.is_none:
        return Code(text=difference.text, same=Sameness.FILES)
    if base.work is not None and base.work == head.work:
        return Code(text=f"{difference.text}, but {base.work.text} on both sides", same=Sameness.MACHINE_CODE)
    return Code(text=difference.text)
