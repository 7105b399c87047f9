"""What only a CUDA device can show: the engine's events, holds and floods on a real stream."""

import pytest
import torch

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.measure.group import Group
from normbench.measure.measurer import Measurer
from normbench.measure.plan import Plan
from normbench.records.record import Role, Status

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")]

PROVIDERS = ("eager", "aten", "compile", "triton")


@pytest.fixture(scope="module")
def measurer(tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "worker.log"
    with Measurer(PROVIDERS, device="cuda", plan=Plan(budget_s=0.5), log=log) as measurer:
        yield measurer


def measure(measurer, case_id, cache="warm"):
    group = Group.of([Case.from_id(case_id)], Conditions(device="cuda", threads=1, cache=cache), PROVIDERS)
    return {record.provider: record for record in measurer.measure(group)}


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm", "add_layer_norm", "add_rms_norm"])
def test_every_provider_that_supports_a_case_passes_its_check(measurer, norm):
    records = measure(measurer, f"op/{norm}/forward/2048x1024/bfloat16")
    assert {record.status for record in records.values() if record.role is Role.PROVIDER} <= {
        Status.OK,
        Status.UNSUPPORTED,
        Status.THROTTLED,
    }


def test_time_grows_with_bytes_so_the_device_was_waited_for(measurer):
    # 16 rows fit a few multiprocessors; 65536 x 8192 in bfloat16 moves 2 GiB, which no device does in the time of a launch.
    from normbench.quantities.stats import time_interval

    small = time_interval(measure(measurer, "op/rms_norm/forward/16x1024/bfloat16")["aten"].measurement).estimate
    large = time_interval(measure(measurer, "op/rms_norm/forward/65536x8192/bfloat16")["aten"].measurement).estimate
    assert large > 20 * small


def test_host_and_device_time_are_apart(measurer):
    block = measure(measurer, "op/rms_norm/forward/1x64/bfloat16")["aten"].measurement.blocks[0]
    assert block.host_s is not None
    assert len(block.host_s) == len(block.samples_s)


def test_a_cold_cache_is_not_faster_than_a_warm_one(measurer):
    from normbench.quantities.stats import time_interval

    case_id = "op/rms_norm/forward/4096x1024/bfloat16"
    warm = time_interval(measure(measurer, case_id)["aten"].measurement).estimate
    cold = time_interval(measure(measurer, case_id, cache="cold")["aten"].measurement).estimate
    assert cold > 0.95 * warm
