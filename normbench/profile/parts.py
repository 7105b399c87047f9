"""A profile's costs added up by kind of module, by module, by operator and by norm. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from ..cases.case import Pass
from ..cases.layers import like_layers
from ..cases.traffic import bytes_moved
from .costs import BETWEEN, Cost, Phase
from .kinds import ModuleKind
from .summary import Profile

__all__ = ["NormPart", "Part", "by_kind", "by_module", "by_operator", "launches", "norm_parts"]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what one part of a step took: seconds on the host and of kernels on the device, per phase.

    `share` is the part's share of the profile's basis: of the host's seconds, or of the device's. `calls` counts what the part is about:
    calls of the module, or of the operator.
    """

    name: str
    calls: float
    forward_s: float
    backward_s: float
    forward_device_s: float
    backward_device_s: float
    kernels: float
    share: float

    @property
    def host_s(self) -> float:
        return self.forward_s + self.backward_s

    @property
    def device_s(self) -> float:
        return self.forward_device_s + self.backward_device_s


class NormPart(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what norms of one place took, those of like layers together.

    `bytes` are the fewest that they can move in a step, null where a call's dtype is none that a norm takes; `gbps` is that over their
    seconds of the profile's basis.
    """

    part: Part
    norm: str
    shapes: tuple[str, ...]
    dtypes: tuple[str, ...]
    bytes: int | None
    gbps: float | None


def by_kind(profile: Profile) -> list[Part]:
    """Return a part for each kind of module, in the order of `ModuleKind`; they add up to the step. Calls are those of modules."""
    kinds = {profile.kind(cost) for cost in profile.costs}
    return [
        _part(profile, kind.value, [cost for cost in profile.costs if profile.kind(cost) is kind], _is_module)
        for kind in ModuleKind
        if kind in kinds
    ]


def by_operator(profile: Profile) -> list[Part]:
    """Return a part for each operator, itself only and not what it called, the longest first; they add up to the step."""
    parts = [
        _part(profile, operator, [cost for cost in profile.costs if cost.operator == operator], lambda cost: True)
        for operator in dict.fromkeys(cost.operator for cost in profile.costs)
    ]
    return sorted(parts, key=lambda part: -part.share)


def by_module(profile: Profile) -> list[Part]:
    """Return a part for each module with all that is in it, parents first, like layers together: `h.0` and `h.1` are `h.*`.

    The network as a whole has the name "". What ran outside of it is in none of them. Modules that never ran are left out.
    """
    names = list(dict.fromkeys(like_layers(path) for path in profile.modules))
    costs: dict[str, list[Cost]] = {name: [] for name in names}
    for cost in profile.costs:
        if cost.module is not None:
            for name in _prefixes(like_layers(cost.module)):
                costs[name].append(cost)
    return [_part(profile, name, costs[name], _is_call_of(name)) for name in names if costs[name]]


def norm_parts(profile: Profile) -> list[NormPart]:
    """Return a part for each place of norms that ran, in the order of the modules, with the fewest bytes they can move."""
    norms = {path: module for path, module in profile.modules.items() if module.kind is ModuleKind.NORM and path not in profile.unseen}
    pass_ = Pass.FORWARD_BACKWARD if profile.trains else Pass.FORWARD
    parts = []
    for name in dict.fromkeys(like_layers(path) for path in norms):
        paths = [path for path in norms if like_layers(path) == name]
        part = _part(profile, name, [cost for cost in profile.costs if cost.module in paths], _is_module)
        cases = [msgspec.structs.replace(case, pass_=pass_) for path in paths for case in norms[path].norm_cases]
        moved = sum(map(bytes_moved, cases)) if len(cases) == round(part.calls) else None
        time_s = part.host_s if profile.device_s is None else part.device_s
        parts.append(
            NormPart(
                part=part,
                norm=", ".join(dict.fromkeys(case.norm.value for case in cases)) or norms[paths[0]].class_name,
                shapes=tuple(dict.fromkeys(case.shape_label for case in cases)),
                dtypes=tuple(dict.fromkeys(case.dtype.value for case in cases)),
                bytes=moved,
                gbps=None if moved is None or not time_s else moved / time_s / 1e9,
            )
        )
    return parts


def launches(profile: Profile) -> tuple[float, float, float]:
    """Return how many operators a step calls, how many of those are called by no other operator, and how many kernels it launches."""
    operators = [cost for cost in profile.costs if not _is_module(cost)]
    return (
        sum(cost.calls for cost in operators),
        sum(cost.outermost for cost in operators),
        sum(cost.kernels for cost in profile.costs),
    )


def _prefixes(name: str) -> Iterator[str]:
    yield ""
    parts = name.split(".") if name else []
    yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _is_module(cost: Cost) -> bool:
    return cost.operator == BETWEEN


def _is_call_of(name: str) -> Callable[[Cost], bool]:
    return lambda cost: _is_module(cost) and cost.module is not None and like_layers(cost.module) == name


def _part(profile: Profile, name: str, costs: Iterable[Cost], counts: Callable[[Cost], bool]) -> Part:
    costs = list(costs)
    forward = [cost for cost in costs if cost.phase is Phase.FORWARD]
    backward = [cost for cost in costs if cost.phase is Phase.BACKWARD]
    on_device = profile.device_s is not None
    time_s = sum(cost.device_s if on_device else cost.host_s for cost in costs)
    return Part(
        name=name,
        calls=sum(cost.calls for cost in costs if counts(cost)),
        forward_s=sum(cost.host_s for cost in forward),
        backward_s=sum(cost.host_s for cost in backward),
        forward_device_s=sum(cost.device_s for cost in forward),
        backward_device_s=sum(cost.device_s for cost in backward),
        kernels=sum(cost.kernels for cost in costs),
        share=time_s / profile.basis_s if profile.basis_s else 0.0,
    )
