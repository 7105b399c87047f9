"""A network as one of several processes trains it: its parameters whole and gradients exchanged (DDP), or sharded (FSDP)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from ..cases.conditions import Parallel
from ..cases.throughput_case import ThroughputCase
from ..models.networks import Network
from ..models.recipe import Batch
from ..workloads.model import arm_network
from ..workloads.training import microbatches, recompute_activations

__all__ = ["parallelise", "rank_batches", "trained_network", "whole"]


def rank_batches(case: ThroughputCase, found: Network, device: torch.device, *, seed: int, rank: int, size: int) -> list[Batch]:
    """Return the microbatches of one rank of `size`, of which each has its own."""
    return microbatches(case, found, device, seed=seed * size + rank)


def trained_network(case: ThroughputCase, found: Network, arm: str, batch: Batch, device: torch.device) -> nn.Module:
    """Return a copy of an arm's network that shares nothing; parameters that no loss depends on are not trained.

    DDP waits for the gradient of every parameter that is trained: those of norms that the network without norms skips never come.
    """
    model = copy.deepcopy(arm_network(case.model_case, arm, device))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter, gradient in zip(trained, torch.autograd.grad(found.loss(model, batch), trained, allow_unused=True), strict=True):
        if gradient is None:
            parameter.requires_grad_(False)
    if case.checkpointing:
        recompute_activations(model, case.label)
    return model


def parallelise(model: nn.Module, parallel: Parallel) -> nn.Module:
    """Return what trains a network together with the other ranks, as users get it without options.

    FSDP shards every layer, and what is beside the layers, by itself. What is returned has `no_sync`, under which gradients stay here.
    """
    if parallel is Parallel.DDP:
        return DistributedDataParallel(model)
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    inner = {part for stack in stacks for layer in stack for part in layer.modules()}
    for stack in stacks:
        if stack not in inner:
            for layer in stack:
                fully_shard(layer)
    sharded = fully_shard(model)

    @contextmanager
    def no_sync() -> Iterator[None]:
        sharded.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            sharded.set_requires_gradient_sync(True)

    model.no_sync = no_sync  # type: ignore[assignment]
    return model


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor, gathered from its shards where it has any."""
    found: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return found.detach()
