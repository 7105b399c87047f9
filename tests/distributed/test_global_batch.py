"""What several processes can train at all, and how a global batch is split over them: evenly, or not at all."""

import pytest

from normbench.cases.conditions import Cache, Pages
from normbench.cases.model_case import ModelCase
from normbench.cases.throughput_case import ThroughputCase
from normbench.distributed.global_batch import refuse_processes, split_global_batch
from normbench.errors import UsageError
from normbench.job.request import make_request
from normbench.text.choices import Choices


@pytest.mark.parametrize(
    ("processes", "batches", "accumulation", "expected"),
    [
        (2, [], 1, (12, 1)),
        (2, [], 3, (4, 3)),
        (2, [4], 1, (4, 3)),
        (2, [4], 3, (4, 3)),
        (1, [24], 1, (24, 1)),
    ],
)
def test_global_batch_is_processes_x_microbatches_x_batch(processes, batches, accumulation, expected):
    batch, counted = split_global_batch(24, processes, batches, accumulation)
    assert (batch, counted) == expected
    assert processes * counted * batch == 24


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((24, 5, [], 1), "global-batch 24 cannot be split over 5 processes: 24 is not a multiple of 5"),
        ((24, 2, [], 5), "over 2 processes of 5 microbatches each: 24 is not a multiple of 10"),
        ((24, 2, [5], 1), "global-batch 24 is not 2 processes x some microbatches x batch 5"),
        ((24, 2, [4], 2), "global-batch 24 is not 2 processes x accumulation 2 x batch 4"),
        ((0, 2, [], 1), "global-batch 0 is less than 1"),
        ((24, 2, [2, 4], 1), "give one batch"),
        ((24, 0, [], 1), "nproc 0 is less than 1"),
    ],
)
def test_what_does_not_divide_is_named(words, said):
    with pytest.raises(UsageError, match=said):
        split_global_batch(*words)


TRAINING = ThroughputCase.make("gpt2", "tiny", "rms_norm", "train", (2, 64))
DECODING = ThroughputCase.make("gpt2", "tiny", "rms_norm", "decode", (2, 64))
MODEL = ModelCase.make("gpt2", "tiny", "rms_norm", "forward", (2, 64))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cases": [TRAINING, DECODING]}, "decode/2x64/float32 is no training"),
        ({"cases": [MODEL]}, "is no training"),
        ({"caches": [Cache.COLD]}, "cache warm"),
        ({"pages": [Pages.FRESH]}, "pages reused"),
        ({"device": "cuda:1"}, "'cuda:1' is a single one"),
        ({"processes": 0}, "nproc 0 is less than 1"),
    ],
)
def test_what_several_processes_cannot_do_is_refused(changes, said):
    asked = {"processes": 2, "cases": [TRAINING], "device": "cpu", "caches": [Cache.WARM], "pages": [Pages.REUSED]}
    refuse_processes(**asked)
    with pytest.raises(UsageError, match=said):
        refuse_processes(**(asked | changes))


def request(**words):
    return make_request(Choices(tier="throughput", network="gpt2", provider="aten", **words), command=[])


def test_request_of_several_processes_trains_under_conditions_of_their_own():
    (group,) = request(nproc=2, threads=1, global_batch=8, batch="2").groups()
    assert [arm.case.id for arm in group.arms] == [
        f"throughput/gpt2-tiny/{norm}/train/2x64/float32/accumulate-2" for norm in ("layer_norm", "rms_norm")
    ]
    assert group.conditions.id == "cpu/1t/warm/reused/2p-ddp"


def test_request_of_one_process_is_what_it_was():
    (group,) = request(mode="train", threads=1, global_batch=6).groups()
    assert group.conditions.id == "cpu/1t/warm/reused"
    assert group.case.size == (6, 64)
