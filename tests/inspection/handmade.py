"""Variants and figures made by hand, in order unless told otherwise."""

from normbench.inspection.figures import Argument, Figures, Inspection, Variant


def figures(**changes):
    """Return figures that keep every budget: 128 threads, one vector load of x and one vector store of y."""
    sound = {
        "registers": 32,
        "stack_bytes": 0,
        "shared_bytes": 1024,
        "threads": 128,
        "loads": {128: 1},
        "stores": {128: 1},
        "local_accesses": 0,
        "bulk_copies": 0,
        "atomics": 0,
        "instructions": 100,
        "code_hash": "a" * 64,
        "arguments": (argument("x_ptr", loads={128: 1}), argument("y_ptr", stores={128: 1})),
    }
    return Figures(**(sound | changes))


def argument(name, *, numel=16 * 1024, itemsize=2, loads=None, stores=None):
    """Return an argument as large as x, of 16 rows of 1024 16-bit values."""
    return Argument(name=name, numel=numel, itemsize=itemsize, loads=loads or {}, stores=stores or {})


def variant(**changes):
    """Return a variant of 16 rows of 1024 columns in bfloat16 on sm_90."""
    sound = {
        "provider": "triton",
        "kernel": "forward",
        "case": "op/rms_norm/forward/16x1024/bfloat16",
        "norm": "rms_norm",
        "pass_": "forward",
        "dtype": "bfloat16",
        "rows": 16,
        "cols": 1024,
        "arch": "sm_90",
        "launch": 0,
        "grid": (16,),
        "constants": {"BLOCK": "1024"},
        "figures": figures(),
    }
    return Variant(**(sound | changes))


def inspection(*variants, versions=None):
    return Inspection(versions=versions or {"torch": "2.13.0", "triton": "3.7.1"}, variants=variants)
