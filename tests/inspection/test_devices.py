"""An architecture is one whose limits are known."""

import pytest

from normbench.errors import UsageError
from normbench.inspection.devices import capability_of, limits_of


# The three that have budgets, and the oldest and newest of those known.
@pytest.mark.parametrize(("arch", "capability"), [("sm_80", 80), ("sm_90", 90), ("sm_100", 100), ("sm_86", 86), ("sm_120", 120)])
def test_an_architecture_has_a_compute_capability(arch, capability):
    assert capability_of(arch) == capability
    assert limits_of(arch).registers == 65_536


# Without the prefix, with the suffix of architecture-specific features, too old, empty, no number, a compute capability.
@pytest.mark.parametrize("arch", ["90", "sm_90a", "sm_70", "", "sm_", "9.0", "SM_90"])
def test_what_is_none_is_refused_with_those_that_are(arch):
    with pytest.raises(UsageError, match=f"'{arch}' is unknown; known are sm_80, .*sm_100"):
        capability_of(arch)
