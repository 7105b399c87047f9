"""What may explain that a network saves more or less than its norms do alone. Pure; every sentence rests on a figure of the records."""

from __future__ import annotations

from ..cases.case import Case, Convention, DType
from ..cases.tiers import parse_case
from ..quantities.stats import is_launch_bound
from ..quantities.units import bytes_text, duration, percent
from ..records.record import NORM_CALLS, Record
from ..results.attribution import Attribution

__all__ = ["hints"]

_WORTH_TELLING = 0.02
"""A change of what autograd keeps, as a share, below which it explains nothing."""


def hints(found: Attribution) -> list[str]:
    """Return what is known about a residual that its interval tells from 0; nothing about one that it does not."""
    residual, per_call_s = found.residual, found.residual_per_call_s
    if residual is None or per_call_s is None or not residual.is_resolved:
        return []
    more = residual.value > 0
    told = [f"{duration(abs(per_call_s))} per norm call {'more' if more else 'less'} is saved than alone"]
    if launch_bound := [one for one in (found.before, found.after) if is_launch_bound(one.measurement)]:
        names = " and ".join(f"`{one.case.arm(one.provider)}`" for one in launch_bound)
        told.append(f"launch-bound: the device waits for the host with {names}, so that a shorter kernel leaves a longer gap")
    if (kept := _change_of_saved_bytes(found)) is not None:
        told.append(f"autograd keeps {kept} for the backward, to be written and read between the norms")
    casts = [one for one in (found.before, found.after) if _casts(one)]
    if casts:
        told.append("perhaps extra casts: rows of 16 bits meet a weight or a rounding of another dtype")
    if not more and not launch_bound:
        told.append("perhaps caches that other layers have used meanwhile, and the Python around a norm's call")
    if "compile" in (found.before.provider, found.after.provider):
        told.append("each norm is compiled by itself: nothing is fused across its boundary, and every call checks its guards")
    return told


def _change_of_saved_bytes(found: Attribution) -> str | None:
    """Return e.g. `1.2 MiB (12 %) less`, or None where it is not known or small."""
    counts = [one.memory.saved_bytes if one.memory else None for one in (found.before, found.after)]
    if counts[0] is None or counts[1] is None or not counts[0]:
        return None
    change = counts[1] - counts[0]
    if abs(change) < _WORTH_TELLING * counts[0]:
        return None
    return f"{bytes_text(abs(change))} ({percent(abs(change) / counts[0])}) {'more' if change > 0 else 'less'}"


def _casts(record: Record) -> bool:
    """Say whether a norm of the network computes in another dtype than the one its rows are stored in, in steps that can be seen."""
    for case_id in record.settings.get(NORM_CALLS) or ():
        case = parse_case(case_id)
        if not isinstance(case, Case) or case.dtype not in (DType.BFLOAT16, DType.FLOAT16):
            continue
        if case.weight_dtype not in (None, case.dtype) or case.convention is not Convention.TORCH:
            return True
    return False
