"""The studies by name."""

from __future__ import annotations

from ..errors import UsageError
from .accounting import ACCOUNTING
from .batch_contrast import BATCH_CONTRAST
from .collapse import COLLAPSE
from .conversion import CONVERSION
from .drift import DRIFT
from .init_gradients import INIT_GRADIENTS
from .learning_rate import LEARNING_RATE
from .norm_growth import NORM_GROWTH
from .precision import PRECISION
from .residual_gradient import RESIDUAL_GRADIENT
from .statistics import STATISTICS
from .study import Study
from .variants import VARIANTS

__all__ = ["STUDIES", "study"]

STUDIES = (
    DRIFT,
    STATISTICS,
    RESIDUAL_GRADIENT,
    NORM_GROWTH,
    BATCH_CONTRAST,
    INIT_GRADIENTS,
    ACCOUNTING,
    PRECISION,
    CONVERSION,
    COLLAPSE,
    LEARNING_RATE,
    VARIANTS,
)
"""The quick ones first, so that `all` has something to show early."""


def study(name: str) -> Study:
    """Return the study of a name. Raises UsageError that lists the known ones."""
    for one in STUDIES:
        if one.name == name:
            return one
    raise UsageError(f"study {name!r} is unknown; known are {', '.join(one.name for one in STUDIES)}")
