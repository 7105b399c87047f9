"""The model tier: one pass of a whole network, its norms of one kind by one provider. Choose what runs with the --nb- options."""

import pytest

from normbench.plugin import REPLAY

pytestmark = pytest.mark.benchmark(timer=REPLAY)


def test_model(normbench_measure, normbench_network, normbench_arm):
    normbench_measure(normbench_network, normbench_arm)
