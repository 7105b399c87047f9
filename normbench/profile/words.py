"""A profile in words for people and in plain values for machines. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from ..quantities.units import DASH, duration, interval_text, number, percent
from .parts import by_kind, by_module, by_operator, launches, norm_parts
from .summary import Basis, NormShare, Profile

__all__ = ["count_text", "headlines", "plain_profile"]

NO_DEVICE = "the step ran on a CPU, where no device launches kernels"


def headlines(profile: Profile) -> list[str]:
    """Return what is to be said before any table, a line each."""
    called, outermost, kernels = launches(profile)
    step = "training step" if profile.trains else "forward"
    took = f"a {step} takes {duration(profile.total_s)}"
    if profile.device_s is not None:
        took += f": the host {duration(profile.host_s)} until all is queued, kernels {duration(profile.device_s)} on the device"
    lines = [
        f"{took}; {profile.steps} turns, the quieter {profile.kept} kept",
        f"the profiler makes it {number(profile.slowdown.estimate)} times as long {interval_text(profile.slowdown)}",
        _norm_line(profile.norm),
        f"{count_text(called)} operators, {count_text(outermost)} of them called by no other operator; "
        + (NO_DEVICE if profile.device_s is None else f"{count_text(kernels)} kernels"),
    ]
    if profile.unseen:
        lines.append(f"not seen to run: {len(profile.unseen)} norms, such as {profile.unseen[0]}")
    return lines


def _norm_line(norm: NormShare | None) -> str:
    if norm is None:
        return "the share of norms is not known: none of them was seen to run, as in a compiled network"
    spread = "no interval" if norm.low is None or norm.high is None else f"{number(100 * norm.low)}{DASH}{number(100 * norm.high)} %"
    where = "the kernels' time" if norm.basis is Basis.DEVICE else "it"
    time = duration(norm.norm_s) if norm.norm_s else "0 s"
    return f"norms take {percent(norm.share)} of {where} ({spread}): {time} in {norm.calls} calls"


def count_text(count: float) -> str:
    """Return a mean number of calls: whole where every step made as many, else with one decimal."""
    return f"{count:.0f}" if count == round(count) else f"{count:.1f}"


def plain_profile(profile: Profile) -> dict[str, Any]:
    """Return a profile as values that JSON has: seconds, shares of 1, counts; null with a reason where there is no device."""
    called, outermost, kernels = launches(profile)
    on_device = profile.device_s is not None
    found: dict[str, Any] = msgspec.to_builtins(profile)
    for field in ("costs", "modules"):
        del found[field]
    return found | {
        "operators": called,
        "outermost_operators": outermost,
        "kernels": kernels if on_device else None,
        "reasons": {} if on_device else dict.fromkeys(("device_s", "kernels"), NO_DEVICE),
        "by_kind": msgspec.to_builtins(by_kind(profile)),
        "by_module": msgspec.to_builtins(by_module(profile)),
        "by_operator": msgspec.to_builtins(by_operator(profile)),
        "norms": msgspec.to_builtins(norm_parts(profile)),
    }
