"""A metric knows which way is good, and turns the time of a call into itself."""

import msgspec
import pytest

from normbench.cases.case import Case
from normbench.cases.metric import TIME, Better, Metric, tokens_metric
from normbench.cases.model_case import ModelCase
from normbench.cases.throughput_case import ThroughputCase


def test_a_time_is_the_time_and_less_of_it_is_better():
    assert (TIME.value(0.25), TIME.better) == (0.25, Better.LESS)


def test_a_rate_is_tokens_over_time_and_half_the_time_is_twice_the_rate():
    metric = tokens_metric(128)
    assert (metric.value(0.25), metric.better, metric.unit) == (512.0, Better.MORE, "tokens/s")


@pytest.mark.parametrize(("better", "sign"), [(Better.LESS, 1), (Better.MORE, -1)])
def test_worse_is_a_longer_time_or_a_lower_rate(better, sign):
    assert better.cost_sign == sign


def test_every_case_says_what_it_is_judged_by():
    assert Case.from_id("op/rms_norm/forward/8x64/float32").metric == TIME
    assert ModelCase.from_id("model/cnn-tiny/rms_norm/forward/2x3x32x32/float32").metric == TIME
    assert ThroughputCase.from_id("throughput/gpt2-tiny/rms_norm/prefill/2x64/float32").metric == tokens_metric(128)


def test_a_metric_comes_back_from_json():
    metric = tokens_metric(7)
    assert msgspec.json.decode(msgspec.json.encode(metric), type=Metric) == metric
