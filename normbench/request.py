"""From the words a user typed to what is to be run, refused at once when it can never work."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from .case import Cache, Case, Conditions, Pages, Tier, member
from .choices import DEFAULTS, Choices, fields, option_name
from .errors import UsageError
from .fleet.shard import Shard, units_of
from .grids import expand
from .grids import grid as find_grid
from .measure.group import Group
from .measure.pages import page_control_reason
from .measure.plan import Plan
from .measure.threads import available_cores, validate_threads
from .model_case import ModelCase
from .store import DEFAULT_ROOT, LATEST, read_run
from .tiers import AnyCase, parse_case

__all__ = ["Request", "cases_by_id", "make_cases", "make_request", "one_device_name", "split"]

_E = TypeVar("_E", bound=StrEnum)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Say what to run: every case under every one of the conditions by every provider, or a shard of that."""

    label: str
    cases: tuple[AnyCase, ...]
    providers: tuple[str, ...]
    device: str = "cpu"
    threads: int
    caches: tuple[Cache, ...] = (Cache.WARM,)
    pages: tuple[Pages, ...] = (Pages.REUSED,)
    plan: Plan = Plan()
    command: tuple[str, ...] = ()
    root: str = str(DEFAULT_ROOT)
    resume: str | None = None
    shard: Shard | None = None

    def validate(self) -> None:
        """Raise UsageError for what can never work, before anything is started."""
        self.plan.validate()
        if not self.cases:
            raise UsageError("no case was asked for: the choices of grid or network, norm, pass and dtype leave none")
        if not self.providers:
            raise UsageError("no provider was asked for: name at least one, such as aten")
        if len(set(self.providers)) != len(self.providers):
            raise UsageError(f"providers {', '.join(self.providers)} name one twice")
        validate_threads(self.threads)
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
            Conditions(device=self.device, threads=self.threads, cache=cache, pages=pages) for cache in self.caches for pages in self.pages
        ]

    def groups(self) -> list[Group]:
        """Return what is measured together, in the order in which it is measured; of a shard its own part."""
        companies: dict[str, list[AnyCase]] = {}
        for case in self.cases:
            companies.setdefault(case.company, []).append(case)
        groups = [Group.of(cases, conditions, self.providers) for cases in companies.values() for conditions in self.conditions()]
        return groups if self.shard is None else self.shard.pick(groups)


def split(text: str) -> list[str]:
    """Return the non-empty, stripped parts of a comma-separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def cases_by_id(text: str) -> tuple[Case, ...]:
    """Return the cases of the op tier of comma-separated ids, each once. Raises UsageError for one that is none."""
    return tuple(dict.fromkeys(Case.from_id(part) for part in split(text)))


def one_device_name(device: str) -> str:
    """Return the name that a device goes by: one device must have one, or its records would never be compared."""
    return "cuda" if device == "cuda:0" else device


def _members(kind: type[_E], text: str, option: str) -> tuple[_E, ...]:
    known = [member.value for member in kind]
    for word in split(text):
        if word not in known:
            raise UsageError(f"{option} {word!r} is unknown; known are {', '.join(known)}")
    if not split(text):
        raise UsageError(f"{option} is empty; known are {', '.join(known)}")
    return tuple(dict.fromkeys(kind(word) for word in split(text)))


def make_cases(choices: Choices) -> tuple[tuple[Case, ...], str]:
    """Return the cases of the op tier that the words ask for and a label for the run.

    Raises UsageError naming the first word that does not fit.
    """
    if choices.case:
        return cases_by_id(choices.case), "cases"
    _refuse_words(choices, Tier.OP, ("network", "preset"))
    chosen = find_grid(choices.grid)
    cases = expand(
        chosen,
        norms=split(choices.norm),
        passes=split(choices.pass_),
        dtypes=split(choices.dtype),
        weight_dtype=choices.weight_dtype or None,
    )
    return tuple(cases), chosen.name


def _cases_of_any_tier(choices: Choices) -> tuple[tuple[AnyCase, ...], str]:
    """Return the cases that the words ask for and a label for the run. Raises UsageError naming the first word that does not fit."""
    if choices.case:
        return tuple(dict.fromkeys(_known(parse_case(part)) for part in split(choices.case))), "cases"
    tier = member(Tier, choices.tier, "tier")
    if tier is Tier.MODEL:
        return _model_cases(choices), f"model-{choices.preset}"
    if tier is not Tier.OP:
        raise UsageError(f"nothing is measured in the {tier.value} tier by this version; known are op, model")
    return make_cases(choices)


def _refuse_words(choices: Choices, tier: Tier, names: tuple[str, ...]) -> None:
    """Raise UsageError for words that mean nothing in a tier."""
    for name in names:
        if (typed := getattr(choices, name)) != getattr(DEFAULTS, name):
            raise UsageError(f"{option_name(name)} {typed!r} means nothing in the {tier.value} tier: leave it out or choose another tier")


def _model_cases(choices: Choices) -> tuple[ModelCase, ...]:
    """Return the cases of networks: for each network each dtype, for each dtype each pass, for each pass each norm."""
    # PyTorch is imported for it, which no other tier needs here.
    from .models.networks import network, networks

    _refuse_words(choices, Tier.MODEL, ("grid", "weight_dtype"))
    chosen = [network(name) for name in split(choices.network)] if choices.network else networks()
    return tuple(
        dict.fromkeys(
            ModelCase.make(found.name, choices.preset, norm, pass_, found.size(choices.preset), dtype)
            for found in chosen
            for dtype in split(choices.dtype)
            for pass_ in split(choices.pass_)
            for norm in split(choices.norm)
        )
    )


def _known(case: AnyCase) -> AnyCase:
    """Return a case. Raises UsageError for a network that is not there, or not of that size."""
    if isinstance(case, ModelCase):
        from .models.networks import network

        if (size := network(case.network).size(case.preset)) != case.size:
            raise UsageError(f"case id {case.id!r}: {case.label} has the size {'x'.join(map(str, size))}, not {case.shape_label}")
    return case


def make_request(choices: Choices, *, command: Sequence[str], shard: Shard | None = None) -> Request:
    """Return the Request that the words ask for, or the one that a run to be resumed was made from; `shard` is the part to take.

    Raises UsageError naming the first word that does not fit, or what differs from the run to be resumed.
    """
    typed = {name for name, default in fields() if getattr(choices, name) != default} - {"out", "resume"}
    stored = _stored_request(choices) if choices.resume is not None else None
    if stored is not None and shard is not None and shard != stored.shard:
        part = "all of it" if stored.shard is None else f"shard {stored.shard.text}"
        raise UsageError(f"run {stored.resume} is {part}, not shard {shard.text}: start a new run for that one")
    if stored is not None and not typed:
        request = stored
    else:
        cases, label = _cases_of_any_tier(choices)
        request = Request(
            label=label,
            cases=cases,
            providers=tuple(split(choices.provider)),
            device=one_device_name(choices.device),
            threads=choices.threads if choices.threads is not None else available_cores(),
            caches=_members(Cache, choices.cache, "cache"),
            pages=_members(Pages, choices.pages, "pages"),
            plan=Plan(budget_s=choices.budget, seed=choices.seed),
            command=tuple(command),
            root=choices.out,
            resume=choices.resume,
            shard=shard if stored is None else stored.shard,
        )
        if stored is not None:
            _refuse_difference(request, stored)
    request.validate()
    return request


_OF_ONE_INVOCATION = ("label", "command", "root", "resume")


def _stored_request(choices: Choices) -> Request:
    found = read_run(choices.resume or LATEST, root=choices.out)
    try:
        request = msgspec.convert(found.info.settings["request"], Request)
    except (KeyError, msgspec.ValidationError) as error:
        raise UsageError(f"run {found.info.id} cannot be resumed: it does not say what it was made from ({error})") from None
    return msgspec.structs.replace(request, root=str(found.path.parent), resume=found.path.name)


def _refuse_difference(request: Request, stored: Request) -> None:
    for name in Request.__struct_fields__:
        if name not in _OF_ONE_INVOCATION and getattr(request, name) != getattr(stored, name):
            raise UsageError(
                f"run {stored.resume} was made with another {name}, {getattr(stored, name)!r}: resume it with the same choices or with none"
            )
