"""The op tier: one call of one norm. Choose what runs with the --nb- options, see `pytest --help`."""

import pytest

from normbench.plugin import REPLAY

pytestmark = pytest.mark.benchmark(timer=REPLAY)


def test_op(normbench_measure, normbench_group, normbench_provider):
    normbench_measure(normbench_group, normbench_provider)
