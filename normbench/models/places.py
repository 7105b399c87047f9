"""Where in a network a norm stands, read off the flow of one forward pass.

The trunk is found first: a sum is a residual one where one operand is an ancestor of the other and a matrix product lies between. So no
name of a class or an attribute is looked at. What a norm reads and who reads it then tell its place; see `Place`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from .flow import Flow, Kind, NormCall

__all__ = ["NormPlace", "Place", "Places"]


class Place(StrEnum):
    """Name a place of a norm.

    pre: reads the trunk, and what is made of it is added to the trunk. post: on the trunk, behind a sum. sandwich: at the end of a branch
    that also begins with a norm; exit: at the end of one that does not. qk: its output is a query or a key of attention. latent: between
    two linear maps within a branch, such as the compressed queries, keys and values of latent attention. final: behind the last sum of a
    trunk that no norm stands on. embedding: on the trunk before its first sum. head: behind the trunk and a product. inner: elsewhere.
    """

    PRE = "pre"
    POST = "post"
    SANDWICH = "sandwich"
    EXIT = "exit"
    QK = "qk"
    LATENT = "latent"
    FINAL = "final"
    EMBEDDING = "embedding"
    HEAD = "head"
    INNER = "inner"


@dataclass(frozen=True, slots=True, kw_only=True)
class NormPlace:
    """Say where a norm stands, how often it is called in a forward pass, and on which shapes; `place` None where it is not called.

    Where it is called in several places, `place` is the commonest.
    """

    place: Place | None
    calls: int
    shapes: tuple[tuple[int, ...], ...]


class Places:
    """Read the places of norms off a flow."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._nodes = flow.nodes
        self._residuals = [index for index, node in enumerate(flow.nodes) if node.kind is Kind.RESIDUAL]
        self._skips = {flow.nodes[index].skip for index in self._residuals}
        self._norms = {call.node for call in flow.calls}
        self._entries = {index: self._entry_norms(index) for index in self._residuals}

    def of(self, name: str) -> NormPlace:
        """Return the place of the norm of a name."""
        calls = [call for call in self._flow.calls if call.name == name]
        counts = Counter(self.place(call) for call in calls)
        return NormPlace(
            place=counts.most_common(1)[0][0] if counts else None,
            calls=len(calls),
            shapes=tuple(dict.fromkeys(call.shape for call in calls)),
        )

    @cached_property
    def bare_ends(self) -> int:
        """Return how many trunks with norms in their branches alone end without a final norm."""
        finals = {self._last_sum(call) for call in self._flow.calls if self.place(call) is Place.FINAL}
        return sum(1 for end in self._ends if self._has_norm_in_branch(end) and end not in finals)

    @cached_property
    def _ends(self) -> list[int]:
        """Return the residual sums that no later one is built on and that no norm carries on."""
        built_on = set().union(*(self._flow.trunk(skip) for skip in self._skips))
        normed = {call.source for call in self._flow.calls if call.node in self._skips}
        return [index for index in self._residuals if index not in built_on and index not in normed]

    def place(self, call: NormCall) -> Place:
        """Return the place of one call of a norm."""
        if call.source is None:
            return Place.INNER
        for index in self._residuals:
            if self._nodes[index].branch == call.node:
                return Place.SANDWICH if self._entries[index] - {call.node} else Place.EXIT
        if any(call.node in entries for entries in self._entries.values()):
            return Place.PRE
        if self._nodes[call.source].kind is Kind.NORM and self._last_sum(self._call_of(call.source)) is not None:
            return Place.FINAL
        end = self._last_sum(call)
        if end is not None:
            return self._behind_sum(call, end)
        if call.node in self._skips:
            return Place.EMBEDDING
        return self._off_trunk(call)

    def _behind_sum(self, call: NormCall, end: int) -> Place:
        if call.node in self._skips:
            return Place.POST
        sums = [value for value in self._nodes[end].trunk if self._nodes[value].kind is Kind.RESIDUAL]
        # A trunk on which every sum is normed has one sum since the last norm; one whose sums add up is bare.
        return Place.FINAL if len(sums) > 1 or self._has_norm_in_branch(end) else Place.POST

    def _off_trunk(self, call: NormCall) -> Place:
        later = [index for index in self._residuals if self._nodes[index].ancestors >> call.node & 1]
        ends, queries = self._uses(call.node)
        if queries and not ends:
            return Place.QK
        if later and self._comes_from_product(call) and ends == {Kind.LINEAR} and not queries:
            return Place.LATENT
        assert call.source is not None
        if not later and any(self._nodes[call.source].ancestors >> index & 1 for index in self._residuals):
            return Place.HEAD
        return Place.INNER

    def _entry_norms(self, index: int) -> set[int]:
        """Return the norms that read what a residual sum skips and feed its branch."""
        node = self._nodes[index]
        trunk = self._flow.trunk(node.skip)
        branch = self._nodes[node.branch].ancestors
        return {call.node for call in self._flow.calls if call.source in trunk and branch >> call.node & 1 and call.node not in trunk}

    def _has_norm_in_branch(self, index: int) -> bool:
        return self._nodes[index].branch in self._norms or bool(self._entries[index])

    def _last_sum(self, call: NormCall) -> int | None:
        """Return the last residual sum that lies before a norm with no product and no other norm between."""
        if call.source is None:
            return None
        near = self._nodes[call.source].near
        return next((index for index in reversed(self._residuals) if near >> index & 1), None)

    def _call_of(self, node: int) -> NormCall:
        return next(call for call in self._flow.calls if call.node == node)

    @cached_property
    def _readers(self) -> Mapping[int, list[int]]:
        found: dict[int, list[int]] = {}
        for index, node in enumerate(self._nodes):
            for source in node.sources:
                found.setdefault(source, []).append(index)
        return found

    def _uses(self, start: int) -> tuple[set[Kind], bool]:
        """Return as what a norm's output ends, past elementwise operators and views, and whether as a query or a key."""
        ends: set[Kind] = set()
        is_query = False
        waiting, seen = [start], {start}
        while waiting:
            here = waiting.pop()
            for reader in self._readers.get(here, []):
                node = self._nodes[reader]
                if node.kind is Kind.MIX and here in node.sources[:2]:
                    is_query = True
                elif node.kind in (Kind.LINEAR, Kind.MIX, Kind.NORM, Kind.RESIDUAL):
                    ends.add(node.kind)
                elif reader not in seen:
                    seen.add(reader)
                    waiting.append(reader)
        return ends, is_query

    def _comes_from_product(self, call: NormCall) -> bool:
        index = call.source
        while index is not None and self._nodes[index].kind is Kind.PART:
            index = self._nodes[index].sources[0]
        return index is not None and self._nodes[index].kind is Kind.LINEAR
