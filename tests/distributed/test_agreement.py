"""A step of several ranks is right when what they exchange is right and all of them have the same parameters afterwards."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from normbench.distributed.agreement import Agreement, compare_parameters, digest
from normbench.distributed.measurer import verdict_on
from normbench.workloads.training import LEARNING_RATE

from .unlike_steps import verdicts

WEIGHT = torch.linspace(-1, 1, 64)


def test_digest_tells_a_single_bit():
    other = WEIGHT.clone()
    other[3] = torch.nextafter(other[3], torch.tensor(2.0))
    assert digest({"w": WEIGHT}) == digest({"w": WEIGHT.clone()})
    assert len({digest({"w": WEIGHT}), digest({"w": other}), digest({"v": WEIGHT})}) == 3
    assert digest({"w": WEIGHT.bfloat16()}) != digest({"w": WEIGHT})


@pytest.mark.parametrize(("moved", "passed"), [(0.0, True), (2 * LEARNING_RATE, True), (3 * LEARNING_RATE, False)])
def test_parameters_may_be_two_steps_apart_and_no_more(moved, passed):
    found = compare_parameters({"v": WEIGHT, "w": WEIGHT + moved}, {"v": WEIGHT, "w": WEIGHT})
    assert found.passed is passed
    assert found.error == pytest.approx(moved, abs=1e-7)
    if moved:
        assert found.tensor.startswith("w after one step")


def test_ranks_with_other_parameters_are_wrong_whatever_rank_0_found():
    same = [Agreement(arm="rms_norm:aten", digest="a") for _ in range(3)]
    assert verdict_on(same) is None
    assert verdict_on([*same, Agreement(arm="rms_norm:aten", digest="b")]) == (
        "after one step the parameters of rank 3 are not those of rank 0"
    )


def test_what_rank_0_found_wrong_is_said():
    far = compare_parameters({"w": WEIGHT + 1}, {"w": WEIGHT})
    assert "w after one step, the worst of 1 parameters off by 1" in verdict_on(
        [Agreement(arm="rms_norm:aten", digest="a", accuracy=(far,))]
    )


def test_gradients_that_are_not_averaged_are_wrong(tmp_path):
    command = [sys.executable, str(Path(__file__).with_name("unlike_steps.py")), str(tmp_path)]
    ranks = [subprocess.Popen([*command, str(rank)]) for rank in range(2)]
    assert [rank.wait(timeout=200) for rank in ranks] == [0, 0]
    told = verdicts(tmp_path)
    assert told["averaged"] == [None, None]
    assert told["apart"] == ["after one step the parameters of rank 1 are not those of rank 0"] * 2
    for reason in told["summed"]:
        assert "averaged over 2 ranks off by" in reason
        assert "after one step, the worst" not in reason, "the optimiser's first step hides it"
