"""Who computes a case: providers, the decorator that makes one, and the registry that knows them all.

A provider is a function ``fn(x, weight, bias, residual, eps)`` that returns ``y``, or ``(y, x + residual)`` when residual is given.
Built-in, installed (entry-point group `normbench.providers`) and a user's own file all come through `provider`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cases.case import Case, Norm
from .cases.definition import Definition
from .catalogue import BUILT_IN, REQUIREMENTS
from .errors import UsageError

__all__ = ["NormFunction", "Provider", "Registry", "provider"]

ENTRY_POINT_GROUP = "normbench.providers"
NormFunction = Callable[..., Any]
Support = Callable[[Case, str], str | None]
Settings = Mapping[str, Any] | Callable[[Case], Mapping[str, Any]]
Definitions = Definition | Callable[[Case], Definition]

_ARGUMENTS = ("x", "weight", "bias", "residual", "eps")
_TAG = "__normbench_provider__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """One provider's function for one norm."""

    function: NormFunction
    per_case: bool
    mutates: tuple[str, ...]
    supports: Support | None
    settings: Settings
    interpret_on_cpu: bool
    definition: Definitions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tag:
    """What the decorator leaves on a function; validated when it is registered."""

    name: str
    norms: tuple[Norm, ...]
    implementation: Implementation


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A named set of implementations, one per norm, and where it was defined (`file:line`)."""

    name: str
    origin: str
    implementations: dict[Norm, Implementation] = field(default_factory=dict)

    def unsupported(self, case: Case, device: str) -> str | None:
        """Return why this provider cannot run the case on the device, or None when it can."""
        implementation = self.implementations.get(case.norm)
        if implementation is None:
            return f"{self.name} has no {case.norm.value}"
        return implementation.supports(case, device) if implementation.supports else None

    def prepare(self, case: Case) -> NormFunction:
        """Return the function that computes the case; a `per_case` implementation builds it afresh."""
        implementation = self.implementations[case.norm]
        return implementation.function(case) if implementation.per_case else implementation.function

    def mutates(self, case: Case) -> tuple[str, ...]:
        """Return the names of the inputs that a call overwrites, to be restored outside the clock."""
        return self.implementations[case.norm].mutates

    def is_interpreted(self, case: Case, device: str) -> bool:
        """Say whether the case can only be checked in Triton's interpreter on this type of device ("cpu" or "cuda")."""
        return device == "cpu" and self.implementations[case.norm].interpret_on_cpu

    def definition(self, case: Case) -> Definition:
        """Return which formula is computed, and hence which one the outputs are checked against."""
        definition = self.implementations[case.norm].definition
        return definition if isinstance(definition, Definition) else definition(case)

    def settings(self, case: Case) -> dict[str, Any]:
        """Return what this provider changes from the library's defaults, for the record."""
        settings = self.implementations[case.norm].settings
        return dict(settings(case) if callable(settings) else settings)


def provider(
    name: str,
    *,
    norms: Iterable[str],
    per_case: bool = False,
    mutates: Iterable[str] = (),
    supports: Support | None = None,
    settings: Settings | None = None,
    interpret_on_cpu: bool = False,
    definition: Definitions = Definition.FORMULA,
) -> Callable[[NormFunction], NormFunction]:
    """Tag a function ``fn(x, weight, bias, residual, eps)`` as provider `name` for `norms` ("layer_norm", "rms_norm").

    With `per_case` the function takes the Case and returns such a function (a fresh compile, a chosen configuration). `mutates`
    names inputs that a call overwrites. `supports(case, device)` returns a reason when a case cannot run on "cpu" or "cuda".
    `settings`, or what it returns for a case, goes on the record. `interpret_on_cpu` is for Triton kernels: without a GPU they are
    checked in Triton's interpreter, in a process of its own, and not timed. `definition`, or what it returns for a case,
    names the formula of a function that computes something else than the norm: it is checked against that, and reports say so.
    Nothing is registered until a Registry loads the module.
    """

    def tag(function: NormFunction) -> NormFunction:
        tags = getattr(function, _TAG, ())
        implementation = Implementation(
            function=function,
            per_case=per_case,
            mutates=tuple(mutates),
            supports=supports,
            settings=settings or {},
            interpret_on_cpu=interpret_on_cpu,
            definition=definition,
        )
        setattr(function, _TAG, (*tags, _Tag(name=name, norms=tuple(Norm(norm) for norm in norms), implementation=implementation)))
        return function

    return tag


class Registry:
    """Look providers up by name; load built-in, installed and file ones when first asked for."""

    def __init__(self) -> None:
        self._providers: dict[str, Provider] = {}
        self._files: dict[Path, list[str]] = {}

    @staticmethod
    def names() -> dict[str, str]:
        """Return every known name and where it comes from, importing no provider."""
        names = {name: f"{__package__}.providers.{module}" for name, module in BUILT_IN.items()}
        for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
            if entry.name in names:
                raise UsageError(f"provider {entry.name!r} is defined twice: by {names[entry.name]} and by the entry point {entry.value}")
            names[entry.name] = entry.value
        return names

    @staticmethod
    def missing(name: str) -> str | None:
        """Return what a known name needs that is not installed and the command that installs it, or None; nothing is imported."""
        requirement = REQUIREMENTS.get(name)
        return requirement.missing() if requirement else None

    def resolve(self, spec: str) -> Provider:
        """Return the provider of a name, or the one that a file (`./my_kernel.py`, `my_kernel.py:name`) defines.

        Raises UsageError for an unknown name, one whose package is not installed, a file without providers, or one with several and
        none chosen.
        """
        if ".py" in spec:
            return self._from_file(spec)
        if spec not in self._providers:
            names = self.names()
            if spec not in names:
                raise UsageError(f"provider {spec!r} is unknown; known are {', '.join(sorted(names))}, or the path of a .py file")
            if missing := self.missing(spec):
                raise UsageError(f"provider {spec!r} {missing}")
            try:
                module = importlib.import_module(names[spec].partition(":")[0])
            except ImportError as error:
                raise UsageError(f"provider {spec!r} ({names[spec]}) cannot be imported: {error}") from error
            self.register_module(module)
            if spec not in self._providers:
                raise UsageError(f"{names[spec]} does not define a provider named {spec!r}")
        return self._providers[spec]

    def _from_file(self, spec: str) -> Provider:
        path_text, _, wanted = spec.partition(".py")
        path = Path(path_text + ".py")
        wanted = wanted.removeprefix(":")
        if not path.is_file():
            raise UsageError(f"provider file {str(path)!r} does not exist")
        resolved = path.resolve()
        if resolved not in self._files:
            self._files[resolved] = self._load_file(path)
        found = self._files[resolved]
        if wanted:
            if wanted not in found:
                raise UsageError(f"{path} defines {', '.join(found) or 'no provider'}, not {wanted!r}")
            return self._providers[wanted]
        if len(found) != 1:
            listed = ", ".join(found) or "tag a function with @normbench.provider"
            raise UsageError(f"{path} defines {len(found)} providers ({listed}); name one as {path}:NAME")
        return self._providers[found[0]]

    def _load_file(self, path: Path) -> list[str]:
        module_spec = importlib.util.spec_from_file_location(f"_normbench_user_{path.stem}", path.resolve())
        if module_spec is None or module_spec.loader is None:
            raise UsageError(f"provider file {str(path)!r} cannot be loaded as a Python module")
        module = importlib.util.module_from_spec(module_spec)
        sys.modules[module_spec.name] = module
        try:
            module_spec.loader.exec_module(module)
        except Exception as error:
            raise UsageError(f"provider file {str(path)!r} failed to import: {type(error).__name__}: {error}") from error
        return self.register_module(module)

    def register_module(self, module: Any) -> list[str]:
        """Register every tagged function of a module; return the provider names found, in order.

        Raises UsageError for a signature that does not fit or a (name, norm) that another module already defines.
        """
        found: list[str] = []
        for function in list(vars(module).values()):
            if not callable(function):
                continue
            for tag in getattr(function, _TAG, ()):
                self._register(tag)
                if tag.name not in found:
                    found.append(tag.name)
        return found

    def _register(self, tag: _Tag) -> None:
        implementation = tag.implementation
        code = inspect.unwrap(implementation.function)
        line = getattr(getattr(code, "__code__", None), "co_firstlineno", 0)
        origin = f"{inspect.getsourcefile(code) or '?'}:{line}"
        parameters = tuple(inspect.signature(implementation.function).parameters)
        expected = ("case",) if implementation.per_case else _ARGUMENTS
        if parameters != expected:
            raise UsageError(f"provider {tag.name!r} at {origin} takes ({', '.join(parameters)}); it must take ({', '.join(expected)})")
        unknown = set(implementation.mutates) - {"x", "residual"}
        if unknown:
            raise UsageError(f"provider {tag.name!r} at {origin}: mutates={sorted(unknown)} is not among x, residual")
        known = self._providers.get(tag.name)
        if known is None:
            known = self._providers[tag.name] = Provider(name=tag.name, origin=origin)
        for norm in tag.norms:
            if norm in known.implementations and known.implementations[norm].function is not implementation.function:
                raise UsageError(f"provider {tag.name!r} already has {norm.value}: defined at {known.origin} and again at {origin}")
            known.implementations[norm] = implementation
