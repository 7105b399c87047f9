"""Which batch to try next, and the largest that fits: doubling until one does not, then bisection. Pure; knows no memory and no clock."""

from __future__ import annotations

from enum import StrEnum

from ..errors import UsageError

__all__ = ["RESOLUTION", "End", "Search"]

RESOLUTION = 1 / 16
"""Share of the largest batch by which a larger one may be missed. A batch below 32 is found exactly: the next one is then the only
one that could be missed."""


class End(StrEnum):
    """Say how a search ended: between two batches, at the most that was allowed, or by answers that no limit of memory explains."""

    FOUND = "found"
    CAPPED = "capped"
    CONTRADICTION = "contradiction"


class Search:
    """Find the largest batch that fits, told of one batch after another whether it does.

    Ask `next` for a batch, `tell` the answer, until `next` is None. Batches double from `start` up to `most`; between the largest that
    fits and the smallest that does not, halves of what lies between are tried until that is one batch, or at most `resolution` of the
    largest that fits. Where `start` does not fit, smaller ones are tried. Answers may also be told unasked, in any order.
    Raises UsageError for numbers that cannot work.
    """

    def __init__(self, *, start: int = 1, most: int = 65536, resolution: float = RESOLUTION) -> None:
        if start < 1:
            raise UsageError(f"start {start} is no batch: give at least 1")
        if most < start:
            raise UsageError(f"most {most} is below start {start}: give a larger batch to end at, or a smaller one to begin with")
        if not 0 <= resolution < 1:
            raise UsageError(
                f"resolution {resolution:g} is no share of a batch: give 0, which is exact, or a number below 1 such as 0.0625"
            )
        self._start = start
        self._most = most
        self._resolution = resolution
        self._answers: dict[int, bool] = {}
        self._contradiction: str | None = None

    def tell(self, batch: int, fits: bool) -> None:
        """Take an answer. One that contradicts an earlier one ends the search; see `contradiction`."""
        if self._answers.get(batch, fits) != fits:
            self._contradiction = f"batch {batch} fitted at one time and did not at another"
        self._answers[batch] = fits
        largest, smallest = self.largest, self.smallest_failed
        if self._contradiction is None and largest is not None and smallest is not None and smallest < largest:
            self._contradiction = f"batch {largest} fits and the smaller {smallest} does not"

    @property
    def largest(self) -> int | None:
        """Return the largest batch that was told to fit, or None."""
        return max((batch for batch, fits in self._answers.items() if fits), default=None)

    @property
    def smallest_failed(self) -> int | None:
        """Return the smallest batch that was told not to fit, or None."""
        return min((batch for batch, fits in self._answers.items() if not fits), default=None)

    @property
    def contradiction(self) -> str | None:
        """Return which answers cannot both come from a limit of memory, or None."""
        return self._contradiction

    @property
    def next(self) -> int | None:
        """Return the batch to try next, never one that was told already, or None when the search has ended."""
        if self._contradiction is not None:
            return None
        largest, smallest = self.largest or 0, self.smallest_failed
        if smallest is None:
            if largest >= self._most:
                return None
            return min(2 * largest, self._most) if largest else self._start
        if smallest - largest <= max(1, int(largest * self._resolution)):
            return None
        return (largest + smallest) // 2

    @property
    def end(self) -> End | None:
        """Return how the search ended, or None while it goes on."""
        if self._contradiction is not None:
            return End.CONTRADICTION
        if self.next is not None:
            return None
        return End.CAPPED if self.smallest_failed is None else End.FOUND
