"""Take a step of two ranks that exchange gradients rightly, not at all, and without averaging, and print the verdict on each."""

import pickle
import sys

import torch
from torch.nn.parallel import DistributedDataParallel

from normbench.cases.conditions import Conditions, Parallel
from normbench.cases.throughput_case import ThroughputCase
from normbench.distributed import agreement
from normbench.distributed.measurer import verdict_on
from normbench.distributed.session import Seat
from normbench.distributed.training import parallelise
from normbench.measure.checking import CheckTask

CASE = ThroughputCase.make("gpt2", "tiny", "rms_norm", "train", (1, 8))


def summed(model, parallel):
    wrapped = DistributedDataParallel(model)

    def add(_, bucket):
        return torch.distributed.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])

    wrapped.register_comm_hook(None, add)
    return wrapped


WAYS = {"averaged": parallelise, "apart": lambda model, parallel: model, "summed": summed}


def main(folder, rank):
    torch.set_num_threads(1)
    check = CheckTask(case=CASE, conditions=Conditions(device="cpu", threads=1), providers=("layer_norm:aten", "rms_norm:aten"), seed=0)
    for number, (way, exchange) in enumerate(WAYS.items()):
        agreement.parallelise = exchange
        seat = Seat(rank=rank, size=2, folder=folder, task=number, timeout_s=60.0, parallel=Parallel.DDP)
        found = []
        agreement.agree(agreement.AgreementTask(seat=seat, check=check), found.append)
        with open(f"{folder}/{way}-{rank}", "wb") as file:
            pickle.dump(found, file)


def verdicts(folder):
    """Return the verdict on each arm by each way."""
    told = {}
    for way in WAYS:
        ranks = []
        for rank in range(2):
            with open(f"{folder}/{way}-{rank}", "rb") as file:
                ranks.append(pickle.load(file))
        told[way] = [verdict_on(of_arm) for of_arm in zip(*ranks, strict=True)]
    return told


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
