"""The words a user can type: one list of options, defaults and help for the command line and the pytest plugin. Imports little."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["DEFAULTS", "HELP", "OF_CASES", "Choices", "fields", "option_name", "split", "words_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Hold the words as typed; lists are comma-separated. Every field has the name of its option."""

    tier: str = "op"
    grid: str = "seed"
    network: str = ""
    preset: str = "tiny"
    case: str = ""
    provider: str = "eager,aten,compile,triton"
    norm: str = "layer_norm,rms_norm"
    pass_: str = "forward,forward_backward"
    mode: str = "train,prefill,decode"
    batch: str = ""
    tokens: int | None = None
    accumulation: int = 1
    autocast: str = ""
    checkpointing: bool = False
    nproc: int = 1
    parallel: str = "ddp"
    global_batch: int | None = None
    dtype: str = "float32"
    weight_dtype: str = ""
    device: str = "cpu"
    threads: int | None = None
    cache: str = "warm"
    pages: str = "reused"
    budget: float = 8.0
    sustain: float = 1.0
    timeout: float = 900.0
    seed: int = 0
    out: str = ".normbench/runs"
    resume: str | None = None


DEFAULTS = Choices()

OF_CASES = (
    *("grid", "network", "preset", "norm", "pass_", "mode", "batch", "tokens"),
    *("accumulation", "autocast", "checkpointing", "dtype", "weight_dtype"),
)
"""What makes cases, whatever the tier; ids of cases say it themselves."""

HELP: Mapping[str, str] = {
    "tier": "op: one call of one norm. model: one pass of a whole network. throughput: tokens per second of training and serving.",
    "grid": "Shapes of the op tier: a named grid (see `normbench list grids`) or shapes such as 4x128x512,8192x1024.",
    "network": "Networks (see `normbench models list`). When empty: all of them in the model tier, gpt2 and llama in the throughput tier.",
    "preset": "Sizes of the networks: tiny for two cores, full (real widths, fewer layers) for one large GPU.",
    "case": "Case ids (`normbench list cases` lists those of any tier) instead of the tier and all words that make cases.",
    "provider": "Who computes: names, or paths of .py files that define one.",
    "norm": "layer_norm, rms_norm, add_layer_norm, add_rms_norm. In the model tier all norms of a network are made to be of one kind.",
    "pass_": "forward, backward, forward_backward; in the model tier inference and a training step without its optimiser.",
    "mode": "Throughput tier: train (with the optimiser), prefill (reading prompts), decode (writing tokens with a cache).",
    "batch": "Throughput tier: batch sizes; when empty the preset's to train, and 1,4,16,64 to serve.",
    "tokens": "Throughput tier: tokens of each sequence, three quarters of them prompt where it is decoded; the preset's when not given.",
    "accumulation": "Throughput tier: microbatches of a training step, whose gradients are averaged.",
    "autocast": "Throughput tier: bfloat16 computes under PyTorch's autocast, with parameters in dtype.",
    "checkpointing": "Throughput tier: compute activations again in the backward of a training step instead of keeping them.",
    "nproc": "Throughput tier: processes that train together; a batch is that of one process. Serving has one.",
    "parallel": "Throughput tier: how several processes train: ddp (each holds the network) or fsdp (each holds a shard).",
    "global_batch": "Throughput tier: sequences of a training step of all processes and microbatches together; split evenly.",
    "dtype": "float32, bfloat16, float16.",
    "weight_dtype": "Dtype of weight and bias; the dtype of x when empty.",
    "device": "cpu, cuda or cuda:N.",
    "threads": "CPU threads; the cores that affinity and quota allow when not given.",
    "cache": "warm: a call finds its tensors in cache. cold: the cache is flushed before every call.",
    "pages": "reused: outputs come from pages the allocator kept. fresh: from new ones (CPU). Both: reused,fresh.",
    "budget": "Seconds of measuring per case, or network and pass, with all that takes turns: wall time of the processes, checks apart.",
    "sustain": "Throughput tier: seconds that each provider is then run by itself, for energy, clocks and temperature; 0 leaves it out.",
    "timeout": "Seconds that a measuring process may say nothing, a compilation included, before it is ended.",
    "seed": "Seed of inputs and of the order of turns.",
    "out": "Folder that runs are written to.",
    "resume": "Go on with this run (a path, a name, or latest).",
}


def option_name(field: str) -> str:
    """Return the option of a field: `weight_dtype` is `weight-dtype`, `pass_` is `pass`."""
    return field.rstrip("_").replace("_", "-")


def fields() -> list[tuple[str, Any]]:
    """Return each field of Choices with its default, in order."""
    return [(field.name, field.default) for field in dataclasses.fields(Choices)]


def words_of(choices: Choices, always: Container[str] = ()) -> list[str]:
    """Return the options that say the same as these choices: all that are not the default, and the fields that are `always` said."""
    words = []
    for name, default in fields():
        value = getattr(choices, name)
        if value != default or name in always:
            words += [f"--{option_name(name)}"] if value is True else [f"--{option_name(name)}", _word(value)]
    return words


def _word(value: object) -> str:
    """Return a value as a user would type it: 8 and not 8.0."""
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def split(text: str) -> list[str]:
    """Return the non-empty, stripped parts of a comma-separated list, each once: nothing is asked for twice."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
