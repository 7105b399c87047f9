"""What changed between two inspections: kernels whose machine code is another, that are new, or that are gone. Pure."""

from __future__ import annotations

import msgspec

from .figures import Inspection, Variant

__all__ = ["Change", "Difference", "compare"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one variant before and after."""

    before: Variant
    after: Variant


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what differs; `versions` are those of the packages that differ, and explain why all machine code may have changed."""

    changed: tuple[Change, ...]
    appeared: tuple[Variant, ...]
    disappeared: tuple[Variant, ...]
    unchanged: int
    versions: dict[str, tuple[str, str]]

    @property
    def is_empty(self) -> bool:
        """Say whether every variant of one inspection is in the other with the same machine code."""
        return not (self.changed or self.appeared or self.disappeared)


def compare(before: Inspection, after: Inspection) -> Difference:
    """Compare variants of the same provider, case, architecture, kernel and place among its launches, by the hash of their code."""
    old = {variant.key: variant for variant in before.variants}
    new = {variant.key: variant for variant in after.variants}
    common = [key for key in old if key in new]
    changed = [key for key in common if _code(old[key]) != _code(new[key])]
    names = sorted(before.versions.keys() | after.versions.keys())
    versions = {name: (before.versions.get(name, "none"), after.versions.get(name, "none")) for name in names}
    return Difference(
        changed=tuple(Change(before=old[key], after=new[key]) for key in changed),
        appeared=tuple(variant for key, variant in new.items() if key not in old),
        disappeared=tuple(variant for key, variant in old.items() if key not in new),
        unchanged=len(common) - len(changed),
        versions={name: (one, other) for name, (one, other) in versions.items() if one != other},
    )


def _code(variant: Variant) -> str | None:
    return variant.figures.code_hash if variant.figures else variant.error
