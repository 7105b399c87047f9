"""What N processes make of N times one: rates by the slowest rank, the efficiency of what took turns, and the spread over ranks."""

import msgspec
import pytest
import synthetic

from normbench.cases.conditions import Conditions, Parallel
from normbench.cases.metric import tokens_metric
from normbench.cases.throughput_case import ThroughputCase
from normbench.records.measurement import Ranks
from normbench.records.record import Status, decode_record, encode_record
from normbench.results.scaling import scaling_note, scaling_of

CASE = ThroughputCase.make("gpt2", "tiny", "rms_norm", "train", (2, 64))
TWO = Conditions(device="cpu", threads=1, processes=2, parallel=Parallel.DDP)


def record(slow_s=0.020, fast_s=0.015, alone_s=0.012, cores=2, **changes):
    """Return a record of two ranks of which the second is the slowest."""
    ranks = Ranks(each=(synthetic.constant(fast_s), synthetic.constant(slow_s)), alone=synthetic.constant(alone_s), cores=cores)
    fields = {"measurement": synthetic.constant(slow_s), "ranks": ranks, "metric": tokens_metric(2 * CASE.tokens)}
    return synthetic.record(CASE, conditions=TWO, **(fields | changes))


def test_rates_efficiency_and_spread():
    found = scaling_of(record())
    assert found.processes == 2
    assert found.together.estimate == pytest.approx(2 * 128 / 0.020)
    assert found.alone.estimate == pytest.approx(128 / 0.012)
    assert found.efficiency.estimate == pytest.approx(found.together.estimate / (2 * found.alone.estimate))
    assert found.efficiency.estimate == pytest.approx(0.6)
    assert (found.slowest, found.slowest_share) == (1, 1.0)
    assert found.spread == pytest.approx(0.25)


def test_interval_is_that_of_what_took_turns():
    ranks = tuple(synthetic.measurement(0.02, name=str(number)) for number in range(2))
    alone = synthetic.measurement(0.016, name="alone")
    found = scaling_of(record(measurement=ranks[0], ranks=Ranks(each=ranks, alone=alone, cores=2)))
    assert found.efficiency.low < 0.8 < found.efficiency.high
    assert found.efficiency.unit.kind == "process"
    assert found.efficiency.half_width < found.together.half_width, "what disturbs one disturbs the other"


def test_only_what_several_processes_measured_has_figures():
    assert scaling_of(synthetic.record(CASE)) is None
    assert scaling_of(record(status=Status.WRONG, reason="wrong", measurement=None, ranks=None)) is None


def test_ranks_that_share_cores_are_noted():
    assert scaling_note([record(cores=2)]) is None
    assert "2 processes of 1 thread on 1 core" in scaling_note([record(cores=1)])


def test_record_of_ranks_is_stored_and_older_ones_are_read():
    stored = encode_record(record())
    assert decode_record(stored, origin="here") == record()
    older = msgspec.json.decode(encode_record(synthetic.record(CASE)))
    del older["ranks"], older["conditions"]["processes"], older["conditions"]["parallel"]
    assert decode_record(msgspec.json.encode(older), origin="here") == synthetic.record(CASE)
