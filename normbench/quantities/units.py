"""Numbers and names as text: the one place where anything is rounded. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, floor, log, log10
from statistics import fmean

from .stats import Interval

__all__ = [
    "DASH",
    "TIMES",
    "TIME_UNITS",
    "bytes_text",
    "count",
    "duration",
    "interval_text",
    "join_words",
    "number",
    "percent",
    "percent_given",
    "plus_minus",
    "rate_text",
    "ratio_text",
    "some",
    "time_text",
    "time_unit",
]

DASH = "\u2013"
TIMES = "\u00d7"
TIME_UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def number(value: float, digits: int = 3) -> str:
    """Return `value` with `digits` significant ones, never in scientific notation: 0.123, 1.23, 12.3, 1234."""
    if value == 0:
        return "0"
    places = digits - 1 - floor(log10(abs(value)))
    # 9.996 rounds up to four digits: count them again after rounding.
    places = digits - 1 - floor(log10(abs(round(value, places)) or abs(value)))
    return f"{value:.{max(0, places)}f}"


def time_unit(times_s: Iterable[float]) -> str:
    """Return the unit in which the typical one of these times reads well; µs when there are none."""
    logs = [log(time) for time in times_s if time > 0]
    typical = exp(fmean(logs)) if logs else 1e-6
    return [unit for unit, size in TIME_UNITS.items() if size <= typical or unit == "ns"][-1]


def time_text(time_s: float, unit: str) -> str:
    return number(time_s / TIME_UNITS[unit])


def duration(time_s: float) -> str:
    """Return a time with the unit that suits it, e.g. `12.3 µs`."""
    unit = time_unit([time_s])
    return f"{time_text(time_s, unit)} {unit}"


def interval_text(interval: Interval, scale: float = 1.0) -> str:
    """Return the bounds of an interval, e.g. `(1.27–1.35)`, or that there is none."""
    if interval.low is None or interval.high is None:
        return "(no interval)"
    return f"({number(interval.low / scale)}{DASH}{number(interval.high / scale)})"


def ratio_text(interval: Interval) -> str:
    """Return a ratio with its interval, e.g. `1.31× (1.27–1.35)`."""
    return f"{number(interval.estimate)}{TIMES} {interval_text(interval)}"


def rate_text(interval: Interval) -> str:
    """Return a rate with half its interval in percent, e.g. `1234 ± 1.2 %`; of the two sides the wider one counts."""
    if interval.low is None or interval.high is None:
        return f"{number(interval.estimate)} (no interval)"
    half = max(interval.high - interval.estimate, interval.estimate - interval.low) / interval.estimate
    return f"{number(interval.estimate)} ± {number(100 * half, 2)} %"


def percent(share: float) -> str:
    """Return a share that was measured in percent, with two significant digits: `0.35 %`, `5.0 %`, `140 %`."""
    return f"{number(100 * share, 2)} %"


def percent_given(share: float) -> str:
    """Return a share that somebody chose in percent, with no digit more than it has: `5 %`, `0.25 %`."""
    return f"{100 * share:g} %"


def plus_minus(share: float, half: float | None) -> str:
    """Return a share in percent with half its interval, to the digits that the interval leaves certain, e.g. `-1.20 ± 0.35 %`."""
    if half is None:
        return f"{number(100 * share, 2)} % (no interval)"
    places = max(0, 1 - floor(log10(100 * half))) if half > 0 else 2
    return f"{100 * share:.{places}f} ± {100 * half:.{places}f} %"


def bytes_text(count: float) -> str:
    """Return a number of bytes in binary units, e.g. `8.00 MiB`."""
    size, unit = float(count), _BYTE_UNITS[0]
    for unit in _BYTE_UNITS:
        if size < 1024 or unit == _BYTE_UNITS[-1]:
            break
        size /= 1024
    return f"{count:.0f} B" if unit == "B" else f"{number(size)} {unit}"


def join_words(words: Iterable[str], last: str = "and") -> str:
    """Return `a`, `a and b`, or `a, b and c`."""
    words = list(words)
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def some(names: Iterable[str], most: int) -> str:
    """Return at most so many names and how many more there are: `a`, `a and b`, or `a, b and 3 more`."""
    names = list(names)
    return join_words(names) if len(names) <= most else f"{', '.join(names[:most])} and {len(names) - most} more"


def count(n: int, noun: str) -> str:
    """Return how many there are of what a noun names, e.g. `1 row` or `2 rows`."""
    return f"{n} {noun}{'' if n == 1 else 's'}"
