"""Operators that both versions register with PyTorch under one name, kept apart.

`torch.library.custom_op` with a name that is taken replaces the operator behind it (torch 2.13), so the base would run the head's code.
In a module of a namespace an operator `mylib::norm` is therefore registered as `mylib_normbench_base_0::norm`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .namespace import Namespace, namespace_of

__all__ = ["operators_kept_apart"]

_DEFINING = ("custom_op", "triton_op", "define")
_NAMING = ("impl", "register_fake", "register_kernel", "register_autograd", "register_autocast", "register_vmap", "register_torch_dispatch")
"""Functions of torch.library whose first argument may be the name of an operator: they make one, or add to one."""


@contextmanager
def operators_kept_apart(namespaces: Sequence[Namespace]) -> Iterator[None]:
    """Rename the operators that modules of the namespaces define, in this process, until the end.

    The object that `custom_op` returns works as before. `torch.ops.mylib.norm` finds nothing and raises: it could not tell who asks.
    """
    import torch.library

    known = {namespace.name: namespace for namespace in namespaces}
    before = {name: getattr(torch.library, name) for name in (*_DEFINING, *_NAMING)}
    defined: set[str] = set()
    for name, function in before.items():
        setattr(torch.library, name, _renaming(function, known, defined, defines=name in _DEFINING))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(torch.library, name, function)


def _renaming(function: Callable[..., Any], known: dict[str, Namespace], defined: set[str], *, defines: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def renamed(*arguments: Any, **options: Any) -> Any:
        namespace = namespace_of(known, sys._getframe(1).f_globals)
        if namespace is not None and arguments and isinstance(arguments[0], str) and "::" in arguments[0]:
            library, _, operator = arguments[0].partition("::")
            name = f"{library}{namespace.name}::{operator}"
            base_name = name.partition(".")[0]
            if defines:
                defined.add(base_name)
            # What is added to another package's operator keeps its name.
            if base_name in defined:
                arguments = (name, *arguments[1:])
        return function(*arguments, **options)

    return renamed
