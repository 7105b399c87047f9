"""Which cases the words of a user ask for, in whichever tier; what can never work is refused with the word at fault."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from ..cases.case import Case, Tier
from ..cases.grids import expand
from ..cases.grids import grid as find_grid
from ..cases.model_case import ModelCase
from ..cases.shape import shape_text
from ..cases.throughput_case import SERVED_BATCHES, Mode, ThroughputCase
from ..cases.tiers import AnyCase, parse_case
from ..distributed.global_batch import split_global_batch
from ..errors import UsageError
from ..text.choices import DEFAULTS, OF_CASES, Choices, option_name, split
from ..text.words import member

__all__ = ["cases_by_id", "make_cases", "refuse_training_words", "refuse_words", "select_cases"]

_C = TypeVar("_C", bound=AnyCase)


def cases_by_id(text: str) -> tuple[Case, ...]:
    """Return the cases of the op tier of comma-separated ids, each once. Raises UsageError for one that is none."""
    return tuple(dict.fromkeys(Case.from_id(part) for part in split(text)))


def make_cases(choices: Choices) -> tuple[tuple[Case, ...], str]:
    """Return the cases of the op tier that the words ask for and a label for the run.

    Raises UsageError naming the first word that does not fit.
    """
    if choices.case:
        return cases_by_id(choices.case), "cases"
    chosen = find_grid(choices.grid)
    cases = expand(
        chosen,
        norms=split(choices.norm),
        passes=split(choices.pass_),
        dtypes=split(choices.dtype),
        weight_dtype=choices.weight_dtype or None,
    )
    return tuple(cases), chosen.name


def select_cases(choices: Choices) -> tuple[tuple[AnyCase, ...], str]:
    """Return the cases that the words ask for and a label for the run. Raises UsageError naming the first word that does not fit."""
    _refuse_idle_words(choices)
    if choices.case:
        cases = tuple(dict.fromkeys(_known(parse_case(part)) for part in split(choices.case)))
        _refuse_words_beside_ids(choices)
        return cases, "cases"
    tier = member(Tier, choices.tier, "tier")
    refuse_words(choices, tier)
    if tier is Tier.MODEL:
        return _model_cases(choices), f"model-{choices.preset}"
    if tier is Tier.THROUGHPUT:
        refuse_training_words(split(choices.mode), accumulation=choices.accumulation, checkpointing=choices.checkpointing)
        return _throughput_cases(choices), f"throughput-{choices.preset}"
    return make_cases(choices)


_OF_WORK = ("batch", "tokens", "accumulation", "autocast", "checkpointing", "sustain", "nproc", "parallel", "global_batch")
_FOREIGN_WORDS = {
    Tier.OP: ("network", "preset", "mode", *_OF_WORK),
    Tier.MODEL: ("grid", "weight_dtype", "mode", *_OF_WORK),
    Tier.THROUGHPUT: ("grid", "weight_dtype", "pass_"),
}
"""What says nothing of a tier's cases."""


def _refuse_idle_words(choices: Choices) -> None:
    """Raise UsageError for words about several processes where others leave them nothing to say."""
    if choices.nproc == 1 and choices.parallel != DEFAULTS.parallel:
        raise UsageError(f"parallel {choices.parallel!r} needs several processes: give nproc, such as 2, or leave it out")
    if choices.global_batch is not None and (choices.case or Mode.TRAIN not in split(choices.mode)):
        why = "case ids have batches of their own" if choices.case else f"mode {choices.mode!r} trains nothing"
        raise UsageError(f"global-batch {choices.global_batch} means nothing here: {why}")


def refuse_training_words(modes: Sequence[str], *, accumulation: int, checkpointing: bool) -> None:
    """Raise UsageError for options of training where none of the modes trains."""
    if Mode.TRAIN in modes or not modes:
        return
    typed = {"accumulation": accumulation, "checkpointing": checkpointing}
    for name, value in typed.items():
        if value != getattr(DEFAULTS, name):
            raise UsageError(f"{_typed(name, value)} means nothing here: mode {','.join(modes)!r} trains nothing; leave it out")


def _refuse_words_beside_ids(choices: Choices) -> None:
    """Raise UsageError for words that make cases where ids say all of them."""
    for name in OF_CASES:
        if (value := getattr(choices, name)) != getattr(DEFAULTS, name):
            raise UsageError(f"{_typed(name, value)} means nothing beside case: the ids say it all; leave one of the two out")


def _typed(name: str, value: object) -> str:
    """Return an option as it was typed: one that is a flag has no value."""
    return option_name(name) if value is True else f"{option_name(name)} {value!r}"


def refuse_words(choices: Choices, tier: Tier) -> None:
    """Raise UsageError for words that mean nothing in a tier."""
    for name in _FOREIGN_WORDS[tier]:
        if (typed := getattr(choices, name)) != getattr(DEFAULTS, name):
            raise UsageError(f"{_typed(name, typed)} means nothing in the {tier.value} tier: leave it out or choose another tier")


def _model_cases(choices: Choices) -> tuple[ModelCase, ...]:
    """Return the cases of networks: for each network each dtype, for each dtype each pass, for each pass each norm."""
    # PyTorch is imported for it, which the op tier does not need here.
    from ..models.networks import network, networks

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


_SERVED_NETWORKS = ("gpt2", "llama")
"""A network of each norm, where none is named."""


def _throughput_cases(choices: Choices) -> tuple[ThroughputCase, ...]:
    """Return the cases of training and serving; see `workloads.throughput.throughput_cases`."""
    # PyTorch is imported for it, which the op tier does not need here.
    from ..workloads.throughput import throughput_cases

    batches = [_count(word, "batch") for word in split(choices.batch)]
    trained, accumulation = batches, choices.accumulation
    if choices.global_batch is not None:
        batch, accumulation = split_global_batch(choices.global_batch, choices.nproc, batches, choices.accumulation)
        trained = [batch]
    return throughput_cases(
        networks=split(choices.network) or _SERVED_NETWORKS,
        preset=choices.preset,
        # Serving has one process; of several asked for without a mode, training is meant.
        modes=[Mode.TRAIN] if choices.nproc > 1 and choices.mode == DEFAULTS.mode else split(choices.mode),
        norms=split(choices.norm),
        dtypes=split(choices.dtype),
        trained=trained,
        served=batches or SERVED_BATCHES,
        tokens=choices.tokens,
        accumulation=accumulation,
        autocast=choices.autocast or None,
        checkpointing=choices.checkpointing,
    )


def _count(word: str, what: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", word) or int(word) < 1:
        raise UsageError(f"{what} {word!r} is not a whole number above 0")
    return int(word)


def _known(case: _C) -> _C:
    """Return a case. Raises UsageError for a network that is not there, not of that size, or that cannot do what is asked."""
    if isinstance(case, ModelCase):
        from ..models.networks import network

        if (size := network(case.network).size(case.preset)) != case.size:
            raise UsageError(f"case id {case.id!r}: {case.label} has the size {shape_text(size)}, not {case.shape_label}")
    if isinstance(case, ThroughputCase):
        from ..workloads.throughput import refuse_case

        refuse_case(case)
    return case
