"""What one trial of a study gave: its setting, its seed, figures and curves, to and from one line of strict JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, isnan
from typing import Literal

import msgspec

__all__ = ["Observation", "Setting", "Trial", "Word", "encoded"]

Setting = dict[str, str | int | float]
Word = Literal["NaN", "inf", "-inf"]
"""A result that JSON has no number for. A loss that is not finite is what a study of stability looks for, and no error."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Name one cell of a study: what is varied, and the seed. `cost` is its expected share of the work, for the time left."""

    setting: Setting
    seed: int
    cost: float = 1.0

    @property
    def key(self) -> str:
        """Return what identifies the trial within a study, e.g. `depth=20 norm=layer_norm seed=0`."""
        return _key(self.setting, self.seed)


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what one trial gave. `values` are single figures, `curves` lists of (x, y); figures that are not finite are words."""

    study: str
    setting: Setting
    seed: int
    values: dict[str, float | Word] = {}
    curves: dict[str, tuple[tuple[float, float | Word], ...]] = {}

    @classmethod
    def of(
        cls,
        study: str,
        trial: Trial,
        *,
        values: Mapping[str, float] | None = None,
        curves: Mapping[str, Iterable[tuple[float, float]]] | None = None,
    ) -> Observation:
        """Return the observation of a trial; floats that are not finite become words."""
        return cls(
            study=study,
            setting=trial.setting,
            seed=trial.seed,
            values={name: encoded(value) for name, value in (values or {}).items()},
            curves={name: tuple((float(x), encoded(y)) for x, y in points) for name, points in (curves or {}).items()},
        )

    @property
    def key(self) -> str:
        return _key(self.setting, self.seed)

    def value(self, name: str) -> float:
        """Return a figure as a float, which may be NaN or infinite."""
        return float(self.values[name])

    def curve(self, name: str) -> list[tuple[float, float]]:
        """Return a curve with floats, which may be NaN or infinite."""
        return [(x, float(y)) for x, y in self.curves[name]]

    def matches(self, **setting: str | int | float) -> bool:
        """Say whether the setting has all of these values."""
        return all(self.setting.get(name) == value for name, value in setting.items())


def _key(setting: Setting, seed: int) -> str:
    return " ".join([*(f"{name}={setting[name]}" for name in sorted(setting)), f"seed={seed}"])


def encoded(value: float) -> float | Word:
    """Return the value, or its word where it is not finite."""
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "inf" if value > 0 else "-inf"
    return float(value)
