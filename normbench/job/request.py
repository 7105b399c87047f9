"""From the words a user typed to what is to be run, refused at once when it can never work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ..cases.conditions import Cache, Conditions, Pages, Parallel
from ..cases.throughput_case import ThroughputCase
from ..cases.tiers import AnyCase
from ..distributed.global_batch import refuse_processes
from ..errors import UsageError
from ..host.threads import available_cores, validate_threads
from ..measure.group import Group
from ..measure.pages import page_control_reason
from ..measure.plan import Plan
from ..storage.stored_run import DEFAULT_ROOT, LATEST, read_run
from ..text.choices import Choices, fields, split
from ..text.words import member, members, refuse_providers
from .selection import select_cases
from .shard import Shard, units_of

__all__ = ["Request", "make_request", "one_device_name"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Say what to run: every case under every one of the conditions by every provider, or a shard of that.

    `choices` are the words that it was made from, if it was made from words.
    """

    label: str
    cases: tuple[AnyCase, ...]
    providers: tuple[str, ...]
    device: str = "cpu"
    threads: int
    caches: tuple[Cache, ...] = (Cache.WARM,)
    pages: tuple[Pages, ...] = (Pages.REUSED,)
    processes: int = 1
    parallel: Parallel | None = None
    plan: Plan = Plan()
    command: tuple[str, ...] = ()
    root: str = str(DEFAULT_ROOT)
    resume: str | None = None
    shard: Shard | None = None
    choices: Choices | None = None

    def validate(self) -> None:
        """Raise UsageError for what can never work, before anything is started."""
        self.plan.validate()
        if not self.cases:
            raise UsageError("no case was asked for: the choices of grid or network, norm, pass and dtype leave none")
        refuse_providers(self.providers)
        validate_threads(self.threads)
        if self.processes != 1:
            refuse_processes(self.processes, self.cases, device=self.device, caches=self.caches, pages=self.pages)
        if self.device == "cpu" and (reason := page_control_reason()) and Pages.FRESH in self.pages:
            raise UsageError(f"pages 'fresh' cannot be had here: {reason}")
        if self.device.startswith("cuda") and Pages.FRESH in self.pages:
            raise UsageError("pages 'fresh' is for cpu: on cuda PyTorch's caching allocator always reuses its pages")
        if self.shard is not None and not self.groups():
            whole = len(units_of(msgspec.structs.replace(self, shard=None).groups()))
            raise UsageError(f"shard {self.shard.text} is empty: what was asked for can be taken apart into {whole} shards at most")

    def conditions(self) -> list[Conditions]:
        """Return every combination of cache and page state asked for."""
        return [
            Conditions(device=self.device, threads=self.threads, cache=cache, pages=pages, processes=self.processes, parallel=self.parallel)
            for cache in self.caches
            for pages in self.pages
        ]

    def groups(self) -> list[Group]:
        """Return what is measured together, in the order in which it is measured; of a shard its own part."""
        companies: dict[str, list[AnyCase]] = {}
        for case in self.cases:
            companies.setdefault(case.company, []).append(case)
        groups = [Group.of(cases, conditions, self.providers) for cases in companies.values() for conditions in self.conditions()]
        return groups if self.shard is None else self.shard.pick(groups)


def one_device_name(device: str) -> str:
    """Return the name that a device goes by: one device must have one, or its records would never be compared."""
    return "cuda" if device == "cuda:0" else device


def make_request(choices: Choices, *, command: Sequence[str], shard: Shard | None = None) -> Request:
    """Return the Request that the words ask for, or the one that a run to be resumed was made from; `shard` is the part to take.

    Words that are left out are those that the run to be resumed was made from. Raises UsageError naming the first word that does not
    fit, or what differs from that run.
    """
    typed = {name: getattr(choices, name) for name, default in fields() if getattr(choices, name) != default and name not in _PLACES}
    stored = _stored_request(choices) if choices.resume is not None else None
    if stored is not None and stored.choices is not None:
        choices = replace(stored.choices, **typed, out=choices.out, resume=choices.resume)
    if stored is not None and shard is not None and shard != stored.shard:
        part = "all of it" if stored.shard is None else f"shard {stored.shard.text}"
        raise UsageError(f"run {stored.resume} is {part}, not shard {shard.text}: start a new run for that one")
    if stored is not None and not typed:
        request = stored
    else:
        cases, label = select_cases(choices)
        request = Request(
            label=label,
            cases=cases,
            providers=tuple(split(choices.provider)),
            device=one_device_name(choices.device),
            threads=choices.threads if choices.threads is not None else max(1, available_cores() // max(1, choices.nproc)),
            caches=members(Cache, choices.cache, "cache"),
            pages=members(Pages, choices.pages, "pages"),
            processes=choices.nproc,
            parallel=member(Parallel, choices.parallel, "parallel") if choices.nproc > 1 else None,
            plan=Plan(
                budget_s=choices.budget,
                timeout_s=choices.timeout,
                sustain_s=choices.sustain if any(isinstance(case, ThroughputCase) for case in cases) else 0.0,
                seed=choices.seed,
            ),
            command=tuple(command),
            root=choices.out,
            resume=choices.resume,
            shard=shard if stored is None else stored.shard,
            choices=choices,
        )
        if stored is not None:
            _refuse_difference(request, stored)
    request.validate()
    return request


_PLACES = ("out", "resume")
_OF_ONE_INVOCATION = ("label", "command", "root", "resume", "choices")


def _stored_request(choices: Choices) -> Request:
    found = read_run(choices.resume or LATEST, root=choices.out)
    try:
        request = msgspec.convert(found.info.settings["request"], Request)
    except (KeyError, msgspec.ValidationError) as error:
        raise UsageError(f"run {found.info.id} cannot be resumed: it does not say what it was made from ({error})") from None
    return msgspec.structs.replace(request, root=str(found.path.parent), resume=found.path.name)


def _refuse_difference(request: Request, stored: Request) -> None:
    for name in Request.__struct_fields__:
        here, there = getattr(request, name), getattr(stored, name)
        if name not in _OF_ONE_INVOCATION and here != there:
            raise UsageError(
                f"run {stored.resume} was made with {_said(name, there, here)}, not {_said(name, here, there)}: "
                "resume it with the same choices or with none"
            )


def _said(name: str, value: Any, other: Any) -> str:
    """Return what a field of a request is in the words of its user, as far as it differs from the other's."""
    if isinstance(value, Plan):
        return ", ".join(
            f"{part} {getattr(value, part)!r}" for part in Plan.__struct_fields__ if getattr(value, part) != getattr(other, part)
        )
    if name == "cases":
        alone = [case.id for case in value if case not in other]
        return f"{len(value)} cases" + (f" ({alone[0]}{' and others' if len(alone) > 1 else ''})" if alone else "")
    return f"{name} {', '.join(value) if isinstance(value, tuple) else value}"
