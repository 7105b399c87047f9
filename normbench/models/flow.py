"""What a forward pass makes of what: every operator a node, its inputs the nodes they came from, each norm one node of its own.

Recorded by a `TorchDispatchMode` while the model runs once, in evaluation mode and without gradients. Only what descends from the model's
inputs has a node: parameters, masks and positions made from nothing but numbers are constants. Nodes also know their ancestors, as bits
of an integer: all of them, those behind a matrix product, and those that nothing but elementwise operators and views lies between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .inference import inference

__all__ = ["Flow", "Kind", "Node", "NormCall", "record"]

_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "linear", "matmul", "convolution", "_grouped_mm"}
_ATTENTION = ("scaled_dot_product", "multi_head_attention", "flash_attention", "flex_attention")
_SAME = {"_to_copy", "clone", "contiguous", "_unsafe_view", "native_dropout", "dropout", "alias", "lift_fresh", "detach"}
_SCALING = {"mul", "div"}
_SUMS = {"add", "add_"}


class Kind(Enum):
    """Say what an operator does to what flows.

    same: nothing but a view, a copy, a cast or a scaling by constants. part: a view of a part. linear: a product with parameters.
    mix: a product of two activations, such as attention. residual: the sum of a value and of what products made of that value.
    """

    INPUT = auto()
    SAME = auto()
    PART = auto()
    LINEAR = auto()
    MIX = auto()
    RESIDUAL = auto()
    NORM = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Hold one operator: `sources` are the indices of the nodes that it reads, past those of kind SAME; in attention in their order.

    `ancestors`, `behind_product` and `near` are bit sets of indices: all ancestors and the node itself; those a product lies
    between; those (and itself) that no product and no norm lies between. `skip` and `branch` are the two operands of a residual sum, and
    `trunk` the values that were summed up to it, itself included.
    """

    kind: Kind
    sources: tuple[int, ...]
    ancestors: int
    behind_product: int
    near: int
    skip: int = -1
    branch: int = -1
    trunk: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NormCall:
    """Say that the norm `name` was called on a tensor of a shape: from which node it read, None for a constant, and which node it is."""

    name: str
    shape: tuple[int, ...]
    source: int | None
    node: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Hold the nodes of a forward pass, in order, and the calls of norms."""

    nodes: list[Node] = field(default_factory=list)
    calls: list[NormCall] = field(default_factory=list)

    def add(self, kind: Kind, sources: Sequence[int]) -> int:
        """Append a node and return its index."""
        read = [self.nodes[source] for source in sources]
        bit = 1 << len(self.nodes)
        ancestors, behind, near = bit, 0, bit
        is_product = kind in (Kind.LINEAR, Kind.MIX)
        for node in read:
            ancestors |= node.ancestors
            behind |= node.ancestors if is_product else node.behind_product
            near |= 0 if is_product or kind is Kind.NORM else node.near
        self.nodes.append(Node(kind=kind, sources=tuple(sources), ancestors=ancestors, behind_product=behind, near=near))
        return len(self.nodes) - 1

    def add_sum(self, first: int, second: int) -> int:
        """Append a sum and return its index: a residual one if one operand, or what was summed into it, is an ancestor of the other."""
        index = self.add(Kind.OTHER, (first, second))
        for skip, branch in ((first, second), (second, first)):
            trunk = self.trunk(skip)
            if any(self.nodes[branch].behind_product >> value & 1 for value in trunk):
                plain = self.nodes[index]
                self.nodes[index] = Node(
                    kind=Kind.RESIDUAL,
                    sources=plain.sources,
                    ancestors=plain.ancestors,
                    behind_product=plain.behind_product,
                    near=plain.near,
                    skip=skip,
                    branch=branch,
                    trunk=trunk | {index},
                )
                break
        return index

    def trunk(self, index: int) -> frozenset[int]:
        """Return the values that lie on the trunk up to a node: of a residual sum its own, of any other node itself."""
        return self.nodes[index].trunk or frozenset((index,))


def record(model: nn.Module, batch: Mapping[str, Any], norms: Mapping[str, nn.Module]) -> Flow:
    """Run a model once on keyword arguments and return what flowed, the norms of these names each as one node.

    The mode of its modules, torch's generators and its buffers of statistics stay as they are; no hook stays behind.
    """
    recorder = _Recorder()
    for value in tree_leaves(batch):
        if isinstance(value, Tensor):
            recorder.remember(value, recorder.flow.add(Kind.INPUT, ()))
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    with (
        inference(model),
        _attention_in_the_open(),
        _hooked(norms, recorder),
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        recorder,
    ):
        model(**batch)
    return recorder.flow


@contextmanager
def _attention_in_the_open() -> Iterator[None]:
    """Have PyTorch compute attention by operators that can be seen, and not by one fused function."""
    is_fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(is_fused)


@contextmanager
def _hooked(norms: Mapping[str, nn.Module], recorder: _Recorder) -> Iterator[None]:
    handles = []
    for name, module in norms.items():

        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            recorder.depth += 1

        def leave(module: nn.Module, args: Any, kwargs: Any, output: Any, name: str = name) -> None:
            recorder.depth -= 1
            recorder.note_norm(name, next(x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), output)

        handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(module.register_forward_hook(leave, with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watch operators; a tensor is known by its identity, and kept so that no other takes it over."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flow = Flow()
        self.depth = 0
        self._known: dict[int, tuple[Tensor, int]] = {}
        self._viewed: dict[int, Tensor] = {}

    def remember(self, tensor: Tensor, node: int) -> None:
        self._known[id(tensor)] = (tensor, node)

    def note_norm(self, name: str, x: Tensor, y: Tensor) -> None:
        source = self._known.get(id(x))
        node = self.flow.add(Kind.NORM, () if source is None else (source[1],))
        self.remember(y, node)
        self.flow.calls.append(NormCall(name=name, shape=tuple(x.shape), source=None if source is None else source[1], node=node))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.depth:
            return result
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        sources = [self._known[id(tensor)][1] for tensor in tensors if id(tensor) in self._known]
        if not sources:
            return result
        outputs = [value for value in tree_leaves(result) if isinstance(value, Tensor)]
        is_view = any(part.alias_info is not None and not part.alias_info.is_write for part in func._schema.returns)
        if is_view:
            for output in outputs:
                # Each part is a value of its own: of a sequence taken apart, one step is not the next.
                is_part = output.numel() < tensors[0].numel()
                self.remember(output, self.flow.add(Kind.PART, sources) if is_part else sources[0])
                self._viewed[id(output)] = tensors[0]
            return result
        node = self._node(func, tensors, sources)
        for output in outputs:
            self.remember(output, node)
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, Tensor):
                self._write(value, node)
        return result

    def _node(self, func: Any, tensors: Sequence[Tensor], sources: Sequence[int]) -> int:
        """Return the node of an operator that makes something new, its only source where that is the same value."""
        name, flow = func.overloadpacket.__name__, self.flow
        if name in _PRODUCTS:
            return flow.add(Kind.LINEAR if len(sources) == 1 else Kind.MIX, sources)
        if any(word in name for word in _ATTENTION):
            return flow.add(Kind.MIX, sources)
        if len(sources) == 1 and (name in _SAME or name in _SCALING):
            return sources[0]
        if name in _SUMS and len(sources) == 2 and tensors[0].shape == tensors[1].shape and tensors[0].is_floating_point():
            return flow.add_sum(*sources)
        return flow.add(Kind.OTHER, sources)

    def _write(self, tensor: Tensor, node: int) -> None:
        """Note that a tensor now holds what a node made, and so does, in part, whatever it is a view of."""
        self.remember(tensor, node)
        while (viewed := self._viewed.get(id(tensor))) is not None:
            before = self._known.get(id(viewed))
            node = self.flow.add(Kind.OTHER, (node,) if before is None else (before[1], node))
            self.remember(viewed, node)
            tensor = viewed
