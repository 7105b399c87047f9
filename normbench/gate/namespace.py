"""The modules of one tree under names of their own, so that two versions of them live in one process.

`mypkg.kernels` of the base becomes `_normbench_base.mypkg.kernels`, and that is its `__name__` too: Dynamo keeps the module that a
function comes from by its name (torch 2.13, `_dynamo.symbolic_convert._import_module`), so under one name the second version's
compiled code would read the globals of the first. An import statement in such a module, whenever it runs, means the same tree.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from .trees import Tree

__all__ = ["Namespace", "imports_redirected", "namespace_of"]

_RUNNING = __name__.partition(".")[0]
_SHARED = frozenset({_RUNNING, "torch", "triton", "numpy", *sys.stdlib_module_names})
"""Never taken from a tree: there can be one of each, and the running normbench is what a provider file means by its name."""

_TRACER = "torch._dynamo.symbolic_convert"

_INSTALLED = ("site-packages", "dist-packages")


class Namespace:
    """The modules of a tree, imported on request. `name` is an identifier; `trees` are all trees of the gate.

    A module is looked for in the tree's root and top folder and in `src` of both. What `sys.path` or an editable install finds in any
    of the trees is taken from the same place of this one.
    """

    def __init__(self, name: str, tree: Tree, trees: Sequence[Tree]) -> None:
        self.name = name
        self.tree = tree
        # The innermost first: one tree may be a folder of the other.
        self._tops = sorted({other.top for other in (tree, *trees)}, key=lambda top: len(top.parts), reverse=True)
        self._files: dict[Path, ModuleType] = {}
        self._owned: dict[str, bool] = {}
        self._path_seen = list(sys.path)
        self._root = ModuleType(name)
        self._root.__path__ = self._folders()
        sys.modules[name] = self._root

    def import_module(self, dotted: str) -> ModuleType | None:
        """Import a module by the name it has in its tree and return it, or None if the tree has none of that name."""
        if not self.owns(dotted.partition(".")[0]):
            return None
        full = f"{self.name}.{dotted}"
        try:
            if importlib.util.find_spec(full) is None:
                return None
        except ModuleNotFoundError as error:
            # A package on the way is missing; anything else that is not there is a failure of the tree's own code.
            if error.name is not None and f"{full}.".startswith(f"{error.name}."):
                return None
            raise
        return importlib.import_module(full)

    def import_file(self, path: Path) -> ModuleType:
        """Import a file of the tree, once, and return its module. Raises what the file raises."""
        if path not in self._files:
            self._files[path] = self._import_file(path)
        return self._files[path]

    def _import_file(self, path: Path) -> ModuleType:
        # Under the name that other modules of the tree import it by, where they can: there must not be two of it.
        if path.stem.isidentifier() and self.owns(path.stem):
            found = importlib.util.find_spec(f"{self.name}.{path.stem}")
            if found is not None and found.origin == str(path):
                return importlib.import_module(found.name)
        stem = re.sub(r"\W", "_", path.stem)
        spec = importlib.util.spec_from_file_location(f"{self.name}.file_{len(self._files)}_{stem}", path)
        assert spec is not None, path
        return _load(spec)

    def modules(self) -> dict[str, ModuleType]:
        """Return what has been imported so far, by the names that modules have in their tree."""
        prefix = f"{self.name}."
        return {name.removeprefix(prefix): module for name, module in list(sys.modules.items()) if name.startswith(prefix)}

    def close(self) -> None:
        """Forget the modules; what still holds one of them keeps it."""
        for name in [self.name, *(f"{self.name}.{name}" for name in self.modules())]:
            sys.modules.pop(name, None)

    def owns(self, top: str) -> bool:
        """Say whether a top-level module of this name comes from the tree."""
        if sys.path != self._path_seen:
            # A module may add a folder of its tree; what was not found before may be there now.
            self._path_seen = list(sys.path)
            self._root.__path__ = self._folders()
            self._owned = {name: True for name, is_owned in self._owned.items() if is_owned}
        if top not in self._owned:
            self._owned[top] = top not in _SHARED and self._find(top)
        return self._owned[top]

    def _folders(self) -> list[str]:
        own = [self.tree.root, self.tree.root / "src", self.tree.top, self.tree.top / "src"]
        elsewhere = [place for entry in sys.path if (place := self._translated(Path(entry or "."))) is not None]
        return list(dict.fromkeys(str(folder) for folder in (*own, *elsewhere) if folder.is_dir()))

    def _translated(self, path: Path) -> Path | None:
        """Return the place in this tree of a path that lies in any of them, or None; installed packages lie in none."""
        path = path.resolve()
        for top in self._tops:
            if path.is_relative_to(top) and not set(path.relative_to(top).parts) & set(_INSTALLED):
                return self.tree.top / path.relative_to(top)
        return None

    def _find(self, top: str) -> bool:
        importlib.invalidate_caches()
        found = PathFinder.find_spec(f"{self.name}.{top}", self._root.__path__)
        if found is not None and found.has_location:
            return True
        try:
            outside = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            outside = None
        if outside is None or not outside.has_location or outside.origin is None:
            return found is not None
        place = self._translated(Path(outside.origin))
        # A folder without __init__.py is a package only where there is no other of its name: that is Python's rule.
        return place is not None and self._adopt(top, outside, place)

    def _adopt(self, top: str, outside: ModuleSpec, origin: Path) -> bool:
        """Import what an editable install finds in another tree, and `sys.path` does not, from the same place of this one."""
        if not origin.is_file():
            # Not in this version: a name that nobody has, rather than the other version's module.
            return True
        folders = None if outside.submodule_search_locations is None else [str(origin.parent)]
        spec = importlib.util.spec_from_file_location(f"{self.name}.{top}", origin, submodule_search_locations=folders)
        assert spec is not None
        self._owned[top] = True
        setattr(self._root, top, _load(spec))
        return True


def _load(spec: ModuleSpec) -> ModuleType:
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise
    return module


@contextmanager
def imports_redirected(namespaces: Sequence[Namespace]) -> Iterator[None]:
    """Make import statements and `importlib.import_module` in modules of a namespace mean its tree, in this process, until the end.

    By the module that asks and not by what is loaded: so it holds in a call, a backward pass, another thread and a forked child alike.
    An import statement that runs anew in every call costs microseconds more (2 to 7 on a busy 2-core CPU), in each version the same.
    """
    known = {namespace.name: namespace for namespace in namespaces}
    import_statement, import_function, path = builtins.__import__, importlib.import_module, list(sys.path)
    with ExitStack() as changes:
        builtins.__import__ = _redirecting_statement(known, import_statement, changes)
        importlib.import_module = _redirecting_function(known, import_function)
        try:
            yield
        finally:
            builtins.__import__, importlib.import_module, sys.path[:] = import_statement, import_function, path


def namespace_of(known: Mapping[str, Namespace], variables: Mapping[str, Any] | None) -> Namespace | None:
    """Return the namespace that the globals of a module belong to, if any."""
    name = variables.get("__name__") if variables is not None else None
    return known.get(name.partition(".")[0]) if isinstance(name, str) else None


def _redirecting_statement(
    known: Mapping[str, Namespace], original: Callable[..., ModuleType], changes: ExitStack
) -> Callable[..., ModuleType]:
    def import_statement(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        namespace = None if level else namespace_of(known, globals)
        top = name.partition(".")[0]
        if namespace is None or not namespace.owns(top):
            return original(name, globals, locals, fromlist, level)
        if sys._getframe(1).f_globals.get("__name__") == _TRACER:
            _teach_tracer(known, changes)
        module = original(f"{namespace.name}.{name}", globals, locals, fromlist, 0)
        return module if fromlist else sys.modules[f"{namespace.name}.{top}"]

    return import_statement


def _teach_tracer(known: Mapping[str, Namespace], changes: ExitStack) -> None:
    """Have Dynamo, which is tracing an import statement of a namespace, look the module up again under the name that it has."""
    translator = sys.modules[_TRACER].InstructionTranslatorBase
    original = translator.import_source
    if getattr(original, "__module__", None) == __name__:
        return

    def import_source(self: Any, module_name: str) -> Any:
        namespace = namespace_of(known, self.f_globals)
        is_own = namespace is not None and namespace.owns(module_name.partition(".")[0])
        return original(self, f"{namespace.name}.{module_name}" if namespace is not None and is_own else module_name)

    translator.import_source = import_source
    changes.callback(setattr, translator, "import_source", original)


def _redirecting_function(known: Mapping[str, Namespace], original: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
    def import_module(name: str, package: str | None = None) -> ModuleType:
        namespace = None if name.startswith(".") else namespace_of(known, sys._getframe(1).f_globals)
        if namespace is None or not namespace.owns(name.partition(".")[0]):
            return original(name, package)
        return original(f"{namespace.name}.{name}")

    return import_module
