"""What a person sees while a run goes on on a cluster: which node is at which cases, beside what every run shows."""

from __future__ import annotations

from collections.abc import Sequence

from ..job.progress import Progress
from ..measure.group import Group
from ..quantities.units import some
from ..records.record import Record

__all__ = ["FleetProgress"]


class FleetProgress(Progress):
    """Observe a run on a cluster and show it on stderr. A context manager."""

    def __init__(self) -> None:
        super().__init__()
        self._at: dict[str, list[str]] = {}

    def __enter__(self) -> FleetProgress:
        self._console.print("reaching the cluster …")
        self._bar.start()
        return self

    def task_started(self, node: str, groups: Sequence[Group]) -> None:
        self._at[node] = [group.id for group in groups]
        self._console.print(f"node {node} takes {len(groups)} cases, {groups[0].id} first", soft_wrap=True)
        self._show()

    def group_done(self, group: Group, records: Sequence[Record]) -> None:
        node = next((node for node, ids in self._at.items() if group.id in ids), "")
        if node:
            self._at[node].remove(group.id)
        super().group_done(group, records)
        self._show()

    def _show(self) -> None:
        nodes = [f"{node}: {some([one.partition('@')[0] for one in ids], 1)}" for node, ids in self._at.items() if ids]
        self._describe("   ".join(nodes))
