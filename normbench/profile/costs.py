"""Where the time of one step went: every moment of it belongs to one module, one operator and one phase. Pure.

**Forward.** An event belongs to the innermost module whose call it ran in.

**Backward.** A backward node belongs to the module whose forward made it: autograd numbers its nodes, and the profiler records each
forward operator with the number that the next node gets, so of the operators with a node's number the last one made it (see
`torch.autograd.profiler.emit_nvtx`). Nodes that add to a parameter's `.grad` have no number. The engine runs them as soon as they are
ready, before all others, so they belong to the module of the node before them.

**Between.** What a module does between its operators, Python above all, is its own. What the engine does before a node, picking it above
all, is that node's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from math import inf

import msgspec

from .events import Event, EventKind, Tree

__all__ = ["BETWEEN", "ENGINE", "Cost", "Phase", "step_costs"]

BETWEEN = "(between operators)"
ENGINE = "(autograd engine)"
"""Names, in the place of an operator's, of time that no operator ran in."""

_LOSSES = (
    "cross_entropy_loss",
    "nll_loss",
    "nll_loss2d",
    "nll_loss_nd",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
)
_LOSS_OPERATORS = frozenset(f"aten::{name}" for name in _LOSSES)


class Phase(StrEnum):
    FORWARD = "forward"
    BACKWARD = "backward"


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what one operator cost in one module and phase of a step, itself only, not what it called.

    `module` is the path of the module, "" the network as a whole, None outside of it. `host_s` and `device_s` are seconds on the host and
    of kernels on the device. `calls` counts events (of `BETWEEN`, calls of the module), `outermost` those that no other operator called.
    """

    module: str | None
    operator: str
    phase: Phase
    is_loss: bool
    host_s: float
    device_s: float
    calls: float
    outermost: float
    kernels: float


class _Owner(msgspec.Struct, frozen=True):
    module: str | None
    is_loss: bool


_NOBODY = _Owner(None, False)


class _Sum:
    """Add up one cost, which is a mutable affair."""

    __slots__ = ("calls", "device_s", "host_s", "kernels", "outermost")

    def __init__(self) -> None:
        self.host_s = self.device_s = 0.0
        self.calls = self.outermost = self.kernels = 0


def step_costs(events: Iterable[Event]) -> tuple[Cost, ...]:
    """Return the costs of one step. Their host seconds add up to those of the step, as long as one thread works at a time.

    Operators outside the network and before its backward pass are the loss; so are loss operators and what these call, anywhere.
    """
    tree = Tree(events)
    owners = _owners(tree)
    sums: defaultdict[tuple[_Owner, str, Phase], _Sum] = defaultdict(_Sum)
    for index, event in enumerate(tree.events):
        phase = Phase.BACKWARD if any(one.kind is EventKind.NODE for one in tree.ancestors(index)) else Phase.FORWARD
        found = sums[owners[index], _operator(tree, index), phase]
        found.host_s += tree.self_s(index)
        found.device_s += sum(kernel.time_s for kernel in event.kernels)
        found.kernels += len(event.kernels)
        found.calls += event.kind in (EventKind.MODULE, EventKind.OPERATOR)
        found.outermost += _is_outermost(tree, index)
        for node, gap_s in _engine_gaps(tree, index):
            found.host_s -= gap_s
            sums[owners[node], ENGINE, Phase.BACKWARD].host_s += gap_s
    return tuple(
        Cost(
            module=owner.module,
            operator=operator,
            phase=phase,
            is_loss=owner.is_loss,
            host_s=found.host_s,
            device_s=found.device_s,
            calls=found.calls,
            outermost=found.outermost,
            kernels=found.kernels,
        )
        for (owner, operator, phase), found in sums.items()
    )


def _owners(tree: Tree) -> list[_Owner]:
    """Return whose each event is. Parents come before what runs inside them, and forward operators before the nodes they make."""
    backward_s = next((event.start_s for event in tree.events if event.kind is EventKind.NODE), -inf)
    owners: list[_Owner] = []
    makers: dict[tuple[int, int], _Owner] = {}
    last_node: dict[int, _Owner] = {}
    for event, parent in zip(tree.events, tree.parents, strict=True):
        holder = _NOBODY if parent is None else owners[parent]
        owner = holder
        if event.kind is EventKind.MODULE:
            owner = _Owner(event.name, False)
        elif event.kind is EventKind.NODE:
            before = last_node.get(event.thread, _NOBODY)
            owner = before if event.sequence is None else makers.get((event.forward_thread, event.sequence), _NOBODY)
            last_node[event.thread] = owner
        elif event.kind is EventKind.OPERATOR and parent is not None:
            is_outside = tree.events[parent].kind is EventKind.STEP and event.start_s < backward_s
            owner = _Owner(holder.module, holder.is_loss or is_outside or event.name in _LOSS_OPERATORS)
            if event.sequence is not None:
                makers[event.thread, event.sequence] = owner
        owners.append(owner)
    return owners


def _operator(tree: Tree, index: int) -> str:
    """Return the operator that the time of an event itself belongs to; a driver's call is part of whoever made it."""
    for event in tree.ancestors(index):
        if event.kind in (EventKind.MODULE, EventKind.STEP):
            return BETWEEN
        if event.kind is not EventKind.RUNTIME:
            return event.name
    return BETWEEN


def _is_outermost(tree: Tree, index: int) -> bool:
    """Say whether an operator was called by no other: by Python, or by the engine as the function of a node."""
    inner, *outer = tree.ancestors(index)
    if inner.kind is not EventKind.OPERATOR:
        return False
    caller = next(event for event in outer if event.kind is not EventKind.RUNTIME)
    return caller.kind is not EventKind.OPERATOR


def _engine_gaps(tree: Tree, index: int) -> Iterator[tuple[int, float]]:
    """Yield the nodes inside an event, but the first, and the seconds since the one before it in which nothing inside the event ran."""
    end_s, reached, gap_s = tree.events[index].end_s, None, 0.0
    for child in tree.children[index]:
        event = tree.events[child]
        is_node = event.kind is EventKind.NODE
        if reached is not None:
            gap_s += max(0.0, min(event.start_s, end_s) - reached)
            if is_node:
                yield child, gap_s
                gap_s = 0.0
        if reached is not None or is_node:
            reached = max(reached or 0.0, event.end_s)
