"""A launch of the tuner's choice reaches the kernels, in Triton's interpreter; what comes out is what today's launch gives."""

from interpreter import run_interpreted


def test_every_candidate_computes_the_same(tmp_path):
    found = run_interpreted("tuning.py", tmp_path)
    assert len(found) == 4
