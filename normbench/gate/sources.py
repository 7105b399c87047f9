"""What differs between the code of both arms, file by file, so that a verdict can say when there is nothing to tell apart."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import msgspec

from ..quantities.units import some

__all__ = ["Difference", "Sources", "digests", "imported_from", "loaded_sources"]

_LISTED = 4

_READ_BY_CODE = frozenset({".c", ".cc", ".cpp", ".cu", ".cubin", ".cuh", ".h", ".hpp", ".json", ".ptx", ".so", ".toml", ".yaml"})
"""What lies beside a module and may be compiled, loaded or read by it: sources of extensions, binaries, tables of configurations."""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Name the code of an arm: what it is called, and the digests of its files by their path in the tree.

    `loaded` are the files of modules that were imported, `files` these all others of the same packages, and those beside the modules that
    code reads.
    """

    provider: str
    loaded: dict[str, str]
    files: dict[str, str]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """List the files that differ between two arms: among those that one of them imported, and among the others that belong to them."""

    providers: tuple[str, str]
    loaded: tuple[str, ...]
    other: tuple[str, ...]

    @classmethod
    def between(cls, base: Sources, head: Sources) -> Difference:
        """Compare two arms; a file that only one of them has differs."""
        differing = {path for path in base.files.keys() | head.files.keys() if base.files.get(path) != head.files.get(path)}
        loaded = differing & (base.loaded.keys() | head.loaded.keys())
        return cls(providers=(base.provider, head.provider), loaded=tuple(sorted(loaded)), other=tuple(sorted(differing - loaded)))

    @property
    def is_none(self) -> bool:
        """Say whether both arms run the same provider from the same files, byte by byte."""
        return self.providers[0] == self.providers[1] and not self.loaded and not self.other

    @property
    def text(self) -> str:
        """Return the difference in a clause for people."""
        if self.providers[0] != self.providers[1]:
            return f"the arms are different providers: {self.providers[0]} and {self.providers[1]}"
        if self.loaded:
            return f"the arms differ in {_listed(self.loaded)}"
        if self.other:
            return f"both arms load the same code; what differs beside it is {_listed(self.other)}"
        return "both arms are the same code"


def _listed(paths: tuple[str, ...]) -> str:
    return some(paths, _LISTED)


def loaded_sources(provider: str, modules: Mapping[str, ModuleType], top: Path) -> Sources:
    """Return the sources of the modules that an arm has imported so far; those outside `top` are shared and do not count."""
    loaded: set[Path] = set()
    everything: set[Path] = set()
    for name, module in modules.items():
        if (text := getattr(module, "__file__", None)) and (path := Path(text)).is_relative_to(top):
            loaded.add(path)
            everything.add(path)
            if not hasattr(module, "__path__"):
                everything |= {beside for beside in path.parent.iterdir() if beside.suffix in _READ_BY_CODE}
        if "." not in name:
            folders = [Path(folder) for folder in getattr(module, "__path__", ())]
            everything |= {path for folder in folders if folder.is_relative_to(top) for path in folder.rglob("*")}
    return Sources(provider=provider, loaded=digests(loaded, top), files=digests(everything, top))


def imported_from(roots: Iterable[str], modules: Mapping[str, ModuleType]) -> dict[str, ModuleType]:
    """Return, of the given modules by name, the roots and all that they import by relative import statements, directly or not.

    So one provider of a package is told from another that happens to be loaded as well.
    """
    waiting, found = list(roots), dict[str, ModuleType]()
    while waiting:
        name = waiting.pop()
        if name in found or name not in modules:
            continue
        found[name] = modules[name]
        # A package runs before its modules do.
        waiting += [name.rpartition(".")[0], *_relative_imports(name, modules[name])]
    return found


def _relative_imports(name: str, module: ModuleType) -> Iterator[str]:
    if not (text := getattr(module, "__file__", None)):
        return
    package = name.split(".") if hasattr(module, "__path__") else name.split(".")[:-1]
    for node in ast.walk(ast.parse(Path(text).read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.level:
            home = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            yield home
            yield from (f"{home}.{alias.name}" for alias in node.names)


def digests(paths: set[Path], top: Path) -> dict[str, str]:
    """Return the SHA-256 of each file by its path in the tree; compiled Python files are left out, for they follow from the others."""
    return {
        path.relative_to(top).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(paths)
        if path.is_file() and "__pycache__" not in path.parts
    }
