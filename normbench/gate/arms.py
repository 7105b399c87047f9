"""Both arms of a gate in one process: a provider as the base's tree has it beside the same provider as the head's tree has it."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import itertools
import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from types import ModuleType
from typing import Any

from ..cases.case import Case
from ..cases.definition import Definition
from ..errors import NormbenchError, UsageError
from ..registry import ENTRY_POINT_GROUP, NormFunction, Registry
from .namespace import Namespace, imports_redirected
from .operators import operators_kept_apart
from .sources import Difference, Sources, imported_from, loaded_sources
from .trees import Tree

__all__ = ["Arm", "Pair", "Presence", "Side", "SideBySide", "presence"]

_PACKAGE = __package__.partition(".")[0]
_FILE = re.compile(r"(?P<path>.+\.py)(?::(?P<name>.+))?")
_MODULE = re.compile(r"(?P<module>\w+(?:\.\w+)*)(?::(?P<name>.+))?")

_serial = itertools.count()
"""Numbers the namespaces of this process: what compilers keep by a module's name must not outlive its tree."""


class Side(StrEnum):
    """Name the two arms: what was, and what is to be judged."""

    BASE = "base"
    HEAD = "head"


class Presence(StrEnum):
    """Say which arms can run a case. missing: the base only. new: the head only."""

    BOTH = "both"
    MISSING = "missing"
    NEW = "new"
    NEITHER = "neither"


def presence(*, base_reason: str | None, head_reason: str | None) -> Presence:
    """Return which arms can run a case from why each cannot; None means that it can."""
    if base_reason is None:
        return Presence.BOTH if head_reason is None else Presence.MISSING
    return Presence.NEW if head_reason is None else Presence.NEITHER


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A provider of one tree. Its functions may be called in this process and its forks, any time until the SideBySide is closed.

    `provider` is a Provider, possibly of the tree's own normbench, or None where the tree has none, for the reason `absence`.
    `origin` is its `file:line`. `translate` turns a case into what the provider knows as one.
    """

    side: Side
    label: str
    spec: str
    origin: str | None
    absence: str | None
    provider: Any = field(repr=False)
    translate: Callable[[Case], Any] = field(repr=False)
    sources: Callable[[], Sources] = field(repr=False)

    def unsupported(self, case: Case, device: str) -> str | None:
        """Return why this arm cannot be timed on the case on "cpu" or "cuda", or None when it can."""
        if self.provider is None:
            return self.absence
        try:
            own = self.translate(case)
            reason: str | None = self.provider.unsupported(own, device)
            if reason is None and self.provider.is_interpreted(own, device):
                return "its Triton kernels are only checked, not timed, without a GPU"
        except Exception as error:
            if _is_usage_error(error):
                return f"{self.label} does not know the case: {error}"
            raise NormbenchError(f"{self.spec} of {self.label} fails to say whether it runs {case.id}: {_told(error)}") from error
        return reason

    def prepare(self, case: Case) -> NormFunction:
        """Return this arm's `fn(x, weight, bias, residual, eps)` for the case; raises what the provider raises."""
        function: NormFunction = self.provider.prepare(self.translate(case))
        return function

    def mutates(self, case: Case) -> tuple[str, ...]:
        """Return the names of the inputs that a call overwrites."""
        return tuple(self.provider.mutates(self.translate(case)))

    def settings(self, case: Case) -> dict[str, Any]:
        """Return what the provider changes from the library's defaults."""
        return dict(self.provider.settings(self.translate(case)))

    def definition(self, case: Case) -> Definition:
        """Return the formula that outputs are checked against, as this normbench names it."""
        # A base from before providers could name one computes the norm's own.
        named = getattr(self.provider, "definition", None)
        return Definition.FORMULA if named is None else Definition(str(named(self.translate(case))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The two arms of one comparison."""

    base: Arm
    head: Arm

    def difference(self) -> Difference:
        """Return how the code of the arms differs, of what has been imported by now; ask after the first calls."""
        return Difference.between(self.base.sources(), self.head.sources())


class SideBySide:
    """Load providers of two trees into this process. Close it, or use it as a context manager.

    While it is open, import statements in modules of a tree mean that tree and operators registered by both get names of their own; other
    code of the process sees no change. Third-party modules, torch first, are shared, and so is the running normbench where a provider
    file imports it. What cannot be kept apart, such as a C++ extension that registers operators, fails when it is loaded a second time.
    """

    def __init__(self, *, base: Tree, head: Tree) -> None:
        serial = next(_serial)
        self._trees = {Side.BASE: base, Side.HEAD: head}
        self._namespaces = {side: Namespace(f"_{_PACKAGE}_{side}_{serial}", tree, (base, head)) for side, tree in self._trees.items()}
        self._registries: dict[Side, Any] = {}
        self._open = ExitStack()
        for namespace in self._namespaces.values():
            self._open.callback(namespace.close)
        self._open.enter_context(imports_redirected(tuple(self._namespaces.values())))
        self._open.enter_context(operators_kept_apart(tuple(self._namespaces.values())))

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Undo the redirection and forget the modules; functions that import something when called must not be called any more."""
        self._open.close()

    def pair(self, base_spec: str, head_spec: str | None = None) -> Pair:
        """Load a provider of the base and one of the head, by default the same.

        A spec is a built-in or installed name, a file (`./kernels.py`, `./kernels.py:name`) or a module (`mypkg.providers:name`), both
        looked for in the tree. Built-in ones come from the tree's own normbench where it contains one, else from the running one.
        Raises UsageError for a provider that neither tree has, or that fails to import.
        """
        pair = Pair(base=self.arm(Side.BASE, base_spec), head=self.arm(Side.HEAD, head_spec or base_spec))
        if pair.base.absence is not None and pair.head.absence is not None:
            known = ", ".join(sorted(self._registry(Side.HEAD).names()))
            raise UsageError(f"nothing to compare: {pair.base.absence}; {pair.head.absence}; known by name are {known}")
        return pair

    def arm(self, side: Side, spec: str) -> Arm:
        """Load a provider of one tree; the arm of a provider that the tree does not have says so in `absence`."""
        try:
            return self._load(side, spec)
        except Exception as error:
            text = str(error) if _is_usage_error(error) else _told(error)
            text = text.replace(f"{self._namespaces[side].name}.", "")
            raise UsageError(f"{spec} of {side} ({self._trees[side].label}) cannot be loaded: {text}") from error

    def _load(self, side: Side, spec: str) -> Arm:
        registry = self._registry(side)
        namespace = self._namespaces[side]
        if (match := _FILE.fullmatch(spec)) is not None:
            path = (self._trees[side].root / match["path"]).resolve()
            if not path.is_relative_to(self._trees[side].top):
                raise UsageError(f"the file lies outside of the tree at {self._trees[side].top}: give a path inside it")
            module = namespace.import_file(path) if path.is_file() else None
            return self._tagged(side, spec, module, match["name"], missing=f"no file {match['path']}")
        names = registry.names()
        if spec in names and not self._is_of_tree(side, names[spec]):
            return self._built_in(side, spec, registry)
        if (match := _MODULE.fullmatch(names.get(spec, spec))) is None:
            raise UsageError("not a provider: give a built-in name, a file such as ./kernels.py, or a module such as mypkg.providers")
        module = namespace.import_module(match["module"])
        # An entry point's name is its provider's; what stands behind the colon is not.
        wanted = spec if spec in names else match["name"]
        return self._tagged(side, spec, module, wanted, missing=f"no provider and no module {match['module']!r}")

    def _is_of_tree(self, side: Side, module: str) -> bool:
        """Say whether a known provider is an installed one (entry point) whose code the tree brings."""
        entries = {entry.value for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)}
        return module in entries and self._namespaces[side].owns(re.split(r"[.:]", module)[0])

    def _registry(self, side: Side) -> Any:
        """Return the registry of the tree's own normbench, or of the running one where the tree is not normbench itself."""
        if side not in self._registries:
            name = f"{self._namespaces[side].name}.{_PACKAGE}"
            folder = self._trees[side].root / _PACKAGE
            is_own = (folder / "__init__.py").is_file() and (folder / "registry.py").is_file()
            self._registries[side] = importlib.import_module(f"{name}.registry").Registry() if is_own else Registry()
        return self._registries[side]

    def _built_in(self, side: Side, spec: str, registry: Any) -> Arm:
        provider = registry.resolve(spec)
        tree, namespace = self._trees[side], self._namespaces[side]
        if isinstance(registry, Registry):
            return self._arm(
                side, spec, provider, label=f"{side} (the running normbench)", sources=lambda: loaded_sources(spec, {}, tree.top)
            )
        functions = [inspect.unwrap(implementation.function) for implementation in provider.implementations.values()]
        roots = {function.__module__.removeprefix(f"{namespace.name}.") for function in functions}
        own_case = importlib.import_module(f"{namespace.name}.{_PACKAGE}").Case
        return self._arm(
            side,
            spec,
            provider,
            translate=lambda case: own_case.from_id(case.id),
            sources=lambda: loaded_sources(spec, imported_from(roots, namespace.modules()), tree.top),
        )

    def _tagged(self, side: Side, spec: str, module: ModuleType | None, wanted: str | None, *, missing: str) -> Arm:
        """Return the arm of a provider that a module of the tree tags with the running normbench's decorator."""
        if module is None:
            return self._absent(side, spec, missing)
        registry = Registry()
        found = registry.register_module(module)
        where = spec.removesuffix(f":{wanted}")
        if wanted is None and len(found) != 1:
            listed = ", ".join(found) or "tag a function with @normbench.provider"
            raise UsageError(f"{where} defines {len(found)} providers ({listed}); name one as {spec}:NAME")
        name = wanted or found[0]
        if name not in found:
            return self._absent(side, spec, f"no provider {name!r} in {where}, which defines {', '.join(found) or 'none'}")
        return self._arm(side, spec, registry.resolve(name))

    def _absent(self, side: Side, spec: str, missing: str) -> Arm:
        return self._arm(side, spec, None, absence=f"{side} ({self._trees[side].label}) has {missing}")

    def _arm(
        self,
        side: Side,
        spec: str,
        provider: Any,
        *,
        absence: str | None = None,
        label: str | None = None,
        translate: Callable[[Case], Any] = lambda case: case,
        sources: Callable[[], Sources] | None = None,
    ) -> Arm:
        tree, namespace = self._trees[side], self._namespaces[side]
        return Arm(
            side=side,
            label=label or f"{side} ({tree.label})",
            spec=spec,
            origin=None if provider is None else provider.origin,
            absence=absence,
            provider=provider,
            translate=translate,
            sources=sources or (lambda: loaded_sources(spec, _of_users(namespace.modules()), tree.top)),
        )


def _of_users(modules: dict[str, ModuleType]) -> dict[str, ModuleType]:
    return {name: module for name, module in modules.items() if name.partition(".")[0] != _PACKAGE}


def _is_usage_error(error: BaseException) -> bool:
    """Say whether it is the UsageError of this normbench or of the copy in a tree."""
    return isinstance(error, UsageError) or type(error).__name__ == UsageError.__name__


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
