"""A cluster in this process: seats that answer at once, break or vanish as a test says."""

from __future__ import annotations

import msgspec
import synthetic

from normbench.fleet.dispatch import Broken, Measured
from normbench.fleet.station import Introduction


def introduction(name="0123456789ab"):
    return Introduction(name=name, machine=synthetic.MACHINE, versions=synthetic.VERSIONS, software={})


class StubCluster:
    """Stand for a cluster. `fate` maps the how-manyth task (from 0) to `lost` or `crashed`; all others are measured."""

    def __init__(self, seats=("a", "b"), fate=None, norms=None):
        self.seats = list(seats)
        self.fate = fate or {}
        self.notes = []
        self.machines = {"0123456789ab": introduction()}
        self.tasks = []
        self.is_closed = False
        self._norms = norms or {}
        self._running = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_closed = True

    def norms_of(self, cases):
        return {case: self._norms.get(case.network, {}) for case in cases}

    def free_seats(self):
        return [seat for seat in self.seats if seat not in self._running]

    def is_hopeful(self):
        return False

    def start(self, seat, groups):
        assert seat not in self._running, "a seat holds one task at a time"
        self._running[seat] = (len(self.tasks), list(groups))
        self.tasks.append((seat, [group.id for group in groups]))

    def wait(self, timeout_s):
        seat, (number, groups) = next(iter(self._running.items()))
        del self._running[seat]
        fate = self.fate.get(number)
        if isinstance(fate, BaseException):
            raise fate
        if fate == "lost":
            self.seats.remove(seat)
            self.notes.append(f"node {seat} was lost")
        if fate is not None:
            return [Broken(seat=seat, reason=f"node {seat} {fate}", is_lost=fate == "lost")]
        return [Measured(seat=seat, results=[(group, records_of(group, seat)) for group in groups])]


def records_of(group, node="a"):
    """Return the records of a group, as a node signs them."""
    found = [synthetic.record(arm.case, arm.provider, conditions=group.conditions) for arm in group.arms]
    return [msgspec.structs.replace(one, machine="0123456789ab", node=node) for one in found]
