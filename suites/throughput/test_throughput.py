"""The throughput tier: training steps, prompts and tokens by a whole network, by the call. Choose what runs with the --nb- options."""

import pytest

from normbench.plugin import REPLAY

pytestmark = pytest.mark.benchmark(timer=REPLAY)


def test_throughput(normbench_measure, normbench_workload, normbench_workload_arm):
    normbench_measure(normbench_workload, normbench_workload_arm)
