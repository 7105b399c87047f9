"""Named shape grids: which shapes are measured together, and why each is among them. Pure: imports no torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from ..errors import UsageError
from ..text.words import member, one_of
from .case import Case, Convention, DType, Norm, Pass
from .shape import parsed_shape

__all__ = ["DEFAULT_DTYPES", "DEFAULT_NORMS", "DEFAULT_PASSES", "GRIDS", "NORM_LABELS", "Grid", "GridShape", "expand", "grid"]

NORM_LABELS = {f"{prefix}{norm.value}": (norm, bool(prefix)) for prefix in ("", "add_") for norm in Norm}
"""Every norm as users write it, with what it stands for: the norm, and whether a residual is added first."""

DEFAULT_NORMS = (Norm.LAYER_NORM.value, Norm.RMS_NORM.value)
DEFAULT_PASSES = (Pass.FORWARD, Pass.FORWARD_BACKWARD)
DEFAULT_DTYPES = (DType.FLOAT32,)


@dataclass(frozen=True, slots=True)
class GridShape:
    """A shape of x and the reason it is in its grid."""

    shape: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A named list of shapes; `summary` says in one line what the grid is for."""

    name: str
    summary: str
    shapes: tuple[GridShape, ...]


def _seed() -> Iterator[GridShape]:
    yield GridShape((4, 128, 512), "1 MiB in float32: stays in the second-level cache")
    yield GridShape((8, 256, 1024), "8 MiB: stays in a server's last-level cache")
    yield GridShape((16, 512, 2048), "64 MiB: past most last-level caches; outputs above 32 MiB come from fresh pages with plain malloc")
    yield GridShape((32, 1024, 4096), "512 MiB: bound by main memory on every device")


def _quick() -> Iterator[GridShape]:
    yield GridShape((1, 4096), "one token through an 8B model: the cost of launching dominates")
    yield GridShape((64, 1000), "width that is no power of two and no multiple of 16: masked tails in every kernel")
    yield GridShape((4, 128, 512), "the first shape of the seed grid, so that quick and seed runs overlap in one case")


# quack's benchmark of RMSNorm (benchmarks/benchmark_rmsnorm.py): constant rows until a row no longer fits one block.
_QUACK_ROWS = 32768
_QUACK_WIDTHS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)


def _quack() -> Iterator[GridShape]:
    for width in _QUACK_WIDTHS:
        yield GridShape(
            (_QUACK_ROWS, width), "quack's sweep at 32768 rows: rows of 256 to 65536 cross from one warp to one block to a cluster"
        )
    yield GridShape((16384, 131072), "quack: a row is 256 KiB in bfloat16, more than the shared memory of one multiprocessor")
    yield GridShape((8192, 262144), "quack: a row is 512 KiB in bfloat16, the width where only clusters read x once")


# Batches of one token each: 1 is interactive use, 256 a full continuous batch on one GPU.
_DECODE_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_DECODE_WIDTHS = {
    2048: "Llama 3.2 1B",
    4096: "Llama 3 8B, Qwen3 8B",
    5120: "Qwen3 14B and 32B; five times a power of two",
    7168: "DeepSeek-V3; seven times a power of two",
    8192: "Llama 3 70B",
}


def _decode() -> Iterator[GridShape]:
    for (width, models), batch in product(_DECODE_WIDTHS.items(), _DECODE_BATCHES):
        yield GridShape((batch, width), f"decoding {batch} sequences at once, hidden size of {models}")


# (batch, sequence) as tokens: 2048 are tritonbench's rows for RMSNorm, 4096 its rows for LayerNorm, 4 x 1024 and 16 x 1024 are
# points of vLLM's RMSNorm benchmark (batch 1-64, sequence 64-1024) and ordinary microbatches.
_TRAINING_TOKENS = ((1, 2048), (4, 1024), (16, 1024))
_TRAINING_WIDTHS = {
    768: "GPT-2 124M, BERT base, ViT-B",
    1600: "GPT-2 XL",
    2048: "Llama 3.2 1B",
    2560: "Gemma 3 4B, Qwen3 4B",
    4096: "Llama 3 8B, Qwen3 8B, OLMo 2 7B",
    5120: "Llama 2 13B, Qwen3 14B",
    6144: "GPT-NeoX 20B",
    7168: "DeepSeek-V3",
    8192: "Llama 3 70B",
}


def _training() -> Iterator[GridShape]:
    for (width, models), (batch, sequence) in product(_TRAINING_WIDTHS.items(), _TRAINING_TOKENS):
        yield GridShape((batch, sequence, width), f"{batch * sequence} tokens, hidden size of {models}")


# helion's RMSNorm and LayerNorm shapes off the beaten track, at its 2048 rows.
_HELION_ROWS = 2048
_HELION_WIDTHS = {
    48: "less than two warps wide",
    96: "three warps wide",
    127: "one less than a power of two",
    768: "three times a power of two (GPT-2 124M)",
    1023: "one less than a power of two: no aligned vector loads from the second row on",
    1536: "three times a power of two",
    2047: "one less than a power of two",
    3072: "three times a power of two (Phi-3 mini)",
    5120: "five times a power of two",
    6144: "three times a power of two",
}
# flashinfer's tests: batch sizes without small factors, widths below and beside the powers of two.
_FLASHINFER_BATCHES = (1, 19, 99, 989)
_FLASHINFER_WIDTHS = {111: "odd width below one vector per thread", 500: "multiple of 4 only: 16-byte loads of 16-bit values do not fit"}


def _odd() -> Iterator[GridShape]:
    for width, why in _HELION_WIDTHS.items():
        yield GridShape((_HELION_ROWS, width), f"helion: {why}")
    yield GridShape((1152, 36864), "helion: few rows that are very wide and no power of two")
    for (width, why), batch in product(_FLASHINFER_WIDTHS.items(), _FLASHINFER_BATCHES):
        yield GridShape((batch, width), f"flashinfer: {why}; {batch} rows")


# Norms of queries and keys run over one head: (batch, sequence, heads, head width), many short rows.
_QK_TOKENS = {(32, 1): "decoding 32 sequences", (1, 2048): "one prompt of 2048 tokens"}
_QK_HEADS = {
    (64, 64): "Persimmon 8B: LayerNorm on 64 heads of 64",
    (32, 96): "heads of Phi-3 mini: 96 is no power of two",
    (32, 128): "queries of Qwen3 8B: RMSNorm on 32 heads of 128",
    (8, 128): "keys of Qwen3 8B: 8 heads of 128 under grouped-query attention",
    (8, 256): "queries of Gemma 3 4B: RMSNorm on 8 heads of 256",
}


def _qk() -> Iterator[GridShape]:
    for ((heads, width), model), ((batch, sequence), use) in product(_QK_HEADS.items(), _QK_TOKENS.items()):
        yield GridShape((batch, sequence, heads, width), f"{model}; {use}")


def _edges() -> Iterator[GridShape]:
    yield GridShape((1, 1), "a single element")
    yield GridShape((5, 1), "width 1: LayerNorm is its bias")
    yield GridShape((17,), "one vector, without rows")
    yield GridShape((3, 16), "one vector load wide")
    yield GridShape((61, 17), "a prime number of rows that are one element wider than a vector load")
    yield GridShape((7, 127), "one less than a power of two: padded lanes in the variance")
    yield GridShape((9, 768), "three times a power of two (GPT-2 124M)")
    yield GridShape((5, 4096), "Llama 3 8B, Qwen3 8B")
    yield GridShape((2, 3, 4, 64), "heads: (batch, sequence, heads, width)")
    yield GridShape((4096, 8), "many rows: sums over rows in 16 bits, or rows left out")
    yield GridShape((3, 16385), "one more than 64 KiB of float32: past one block of columns")
    yield GridShape((2, 32769), "one more than 64 KiB of 16 bits")
    yield GridShape((1, 72704), "wider than 64 KiB whatever the dtype, and no power of two")
    yield GridShape((0, 1024), "no rows")
    yield GridShape((1, 0, 10), "no rows in three sizes")
    yield GridShape((1, 0), "no columns")


def _named(name: str, summary: str, shapes: Callable[[], Iterator[GridShape]]) -> Grid:
    return Grid(name=name, summary=summary, shapes=tuple(shapes()))


GRIDS = {
    grid.name: grid
    for grid in (
        _named("seed", "four shapes from cache-resident to bound by main memory", _seed),
        _named("quick", "three small shapes for CI: seconds on two cores", _quick),
        _named("quack", "quack's RMSNorm sweep: width 256 to 262144 on a large GPU", _quack),
        _named("decode", "one token per sequence: batch 1 to 256 at hidden sizes of real models", _decode),
        _named("training", "2048 to 16384 tokens at hidden sizes of real models", _training),
        _named("odd", "widths and row counts that are no power of two (helion, flashinfer)", _odd),
        _named("qk", "QK-norm: many rows as wide as one attention head", _qk),
        _named("edges", "small shapes at which kernels go wrong, for checking", _edges),
    )
}
"""Every named grid, in the order they are listed to users."""


def grid(name: str) -> Grid:
    """Return the grid of a name, or a custom one from shapes such as `4x128x512,8x1024`.

    Raises UsageError naming the known grids, or the shape that is none.
    """
    if name in GRIDS:
        return GRIDS[name]
    if not re.match(r"\s*\d", name):
        raise UsageError(f"grid {name!r} is unknown; known are {', '.join(GRIDS)}, or give shapes such as 4x128x512,8x1024")
    try:
        shapes = [parsed_shape(text.strip()) for text in name.split(",")]
    except UsageError as error:
        raise UsageError(f"grid {name!r}: {error}") from None
    return Grid(name=name, summary="custom shapes", shapes=tuple(GridShape(shape, "asked for") for shape in dict.fromkeys(shapes)))


def expand(
    grid: Grid,
    *,
    norms: Iterable[str] = DEFAULT_NORMS,
    passes: Iterable[Pass | str] = DEFAULT_PASSES,
    dtypes: Iterable[DType | str] = DEFAULT_DTYPES,
    weight: bool = True,
    weight_dtype: DType | str | None = None,
    bias: bool | None = None,
    eps: float | None = None,
    convention: Convention | str = Convention.TORCH,
) -> list[Case]:
    """Return the cases of a grid: for each shape each dtype, for each dtype each pass, for each pass each norm.

    `norms` are labels of NORM_LABELS. The order is that of the arguments, values given twice count once, and no two cases share an
    id. The other arguments mean what they mean to `Case.make`. Raises UsageError for a value that is none, naming those that are.
    """
    labels = [one_of(NORM_LABELS, label, "norm") for label in dict.fromkeys(norms)]
    all_passes = [member(Pass, value, "pass") for value in dict.fromkeys(passes)]
    all_dtypes = [member(DType, value, "dtype") for value in dict.fromkeys(dtypes)]
    weight_dtype = None if weight_dtype is None else member(DType, weight_dtype, "weight dtype")
    cases = []
    for entry, dtype, pass_, label in product(grid.shapes, all_dtypes, all_passes, labels):
        norm, residual = NORM_LABELS[label]
        cases.append(
            Case.make(
                norm,
                pass_,
                entry.shape,
                dtype,
                residual=residual,
                weight=weight,
                weight_dtype=weight_dtype,
                bias=bias,
                eps=eps,
                convention=convention,
            )
        )
    return cases
