"""A measuring process of the gate: arms loaded once, functions prepared and compiled once, every block a fork of it.

Most often one process holds both arms; where each has an interpreter of its own, a process holds one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..cases.case import Case
from ..cases.conditions import Conditions
from ..cases.definition import Definition
from ..measure.process import adopt_provider, keep_prepared, load_compiler
from ..registry import NormFunction
from .arms import Arm, Side, SideBySide
from .trees import Tree

__all__ = ["CONTROL", "Candidate", "Setup", "loaded_arm", "set_up_arms", "tell_absence"]

CONTROL = "control"
"""Spec of the pair that depends on neither tree: the same function of PyTorch's twice."""

_side_by_side: list[SideBySide] = []
"""What keeps the trees' modules apart, for as long as this process lives."""

_arms: dict[str, Arm] = {}
"""The arms of this process, by the names that tasks know them by."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Name one comparison: a case, and the provider that each arm computes it with."""

    case: Case
    base_spec: str
    head_spec: str

    @property
    def id(self) -> str:
        """Return the id, e.g. `op/rms_norm/forward/4x128x512/float32@aten`; two providers are `aten:triton`."""
        spec = self.base_spec if self.base_spec == self.head_spec else f"{self.base_spec}:{self.head_spec}"
        return f"{self.case.id}@{spec}"

    @property
    def is_control(self) -> bool:
        return self.base_spec == CONTROL

    @property
    def arms(self) -> tuple[str, str]:
        """Return the names that base and head have in the measuring process."""
        return self.arm(Side.BASE), self.arm(Side.HEAD)

    def arm(self, side: Side) -> str:
        """Return the name that one side has in the measuring process."""
        return f"{side} {self.base_spec if side is Side.BASE else self.head_spec}"


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Say what a measuring process loads, and which candidates it prepares for all its forks. `specs` are base's and head's."""

    base: Any
    head: Any
    specs: tuple[tuple[str, str], ...]
    conditions: Conditions
    prepared: tuple[Candidate, ...] = ()
    seed: int = 0
    sides: tuple[Side, ...] = (Side.BASE, Side.HEAD)


class _Control:
    """A provider that no change of either tree can touch, by PyTorch's own functions."""

    name = CONTROL

    def unsupported(self, case: Case, device: str) -> str | None:
        return None

    def is_interpreted(self, case: Case, device: str) -> bool:
        return False

    def mutates(self, case: Case) -> tuple[str, ...]:
        return ()

    def settings(self, case: Case) -> dict[str, Any]:
        return {}

    def definition(self, case: Case) -> Definition:
        return Definition.FORMULA

    def prepare(self, case: Case) -> NormFunction:
        return _control_function


def _control_function(x: Any, weight: Any, bias: Any, residual: Any, eps: float) -> Any:
    import torch

    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


class _Timed:
    """An arm as the tasks see a provider: one that is never interpreted, because it would not be there."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self.name: str = getattr(arm.provider, "name", "")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._arm, name)

    def is_interpreted(self, case: Case, device: str) -> bool:
        return False


def set_up_arms(setup: Setup) -> None:
    """Load the arms, and call every prepared candidate's functions so that they are compiled before the first fork.

    On CUDA nothing is called: a process that has touched the device cannot be forked, so there each block prepares its own functions.
    """
    import torch

    # The server itself must stay single-threaded: an OpenMP pool does not survive a fork.
    torch.set_num_threads(1)
    assert isinstance(setup.base, Tree), setup.base
    assert isinstance(setup.head, Tree), setup.head
    side_by_side = SideBySide(base=setup.base, head=setup.head)
    _side_by_side.append(side_by_side)
    for base_spec, head_spec in setup.specs:
        if len(setup.sides) == 1:
            (side,) = setup.sides
            loaded = [side_by_side.arm(side, base_spec if side is Side.BASE else head_spec)]
        else:
            pair = side_by_side.pair(base_spec, head_spec)
            loaded = [pair.base, pair.head]
        for arm in loaded:
            name = f"{arm.side} {arm.spec}"
            _arms[name] = arm
            adopt_provider(name, _Timed(arm))
    for side in setup.sides:
        adopt_provider(f"{side} {CONTROL}", _Control())
    load_compiler()
    if torch.device(setup.conditions.device).type == "cpu":
        for candidate in setup.prepared:
            _prepare(candidate, setup)


def loaded_arm(name: str) -> Arm:
    """Return one of the arms that this process was set up with, by the name that `Candidate.arm` gives."""
    return _arms[name]


def tell_absence(task: None, emit: Callable[[Any], None]) -> None:
    """Emit the name of each arm and why its tree has no such provider, or None where it has."""
    for name, arm in _arms.items():
        emit((name, arm.absence))


def _prepare(candidate: Candidate, setup: Setup) -> None:
    import torch

    from ..measure.process import loaded_provider
    from ..oracle.problem import make_problem
    from ..workloads.op import make_call, private_copies

    with torch.set_grad_enabled(candidate.case.pass_.has_backward):
        problem = make_problem(candidate.case, device=setup.conditions.device, seed=setup.seed)
        for name in map(candidate.arm, setup.sides):
            function = loaded_provider(name).prepare(candidate.case)
            keep_prepared(name, candidate.case, function)
            own, _ = private_copies(problem, loaded_provider(name).mutates(candidate.case))
            call = make_call(own, function)
            for _ in range(2):
                call()
