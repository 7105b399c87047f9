"""A model to work on, by the name of a network or from a user's file."""

import pytest
import torch

from normbench import UsageError
from normbench.models.sources import load_subject

pytestmark = pytest.mark.usefixtures("one_thread")

FILE = """
import torch
from torch import nn

def plain():
    return nn.Linear(3, 3)

def with_inputs():
    return nn.Linear(3, 3), {"input": torch.ones(2, 3)}

def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=20, n_positions=16))

def number():
    return 7

def failing():
    raise RuntimeError("no weights here")
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path / "mine.py"


def test_a_network_comes_with_its_inputs_and_the_output_that_is_compared():
    subject = load_subject("cnn")
    assert subject.label == "cnn (tiny)"
    assert subject.outputs(subject.model(**subject.batch)).ndim == 2


def test_a_function_returns_a_model_or_a_model_and_its_inputs(file):
    assert load_subject(f"{file}:plain").batch is None
    subject = load_subject(f"{file}:with_inputs")
    assert torch.equal(subject.batch["input"], torch.ones(2, 3))
    assert subject.outputs(subject.model(**subject.batch)).shape == (2, 3)


def test_a_hugging_face_model_gets_tokens_that_it_takes(file):
    pytest.importorskip("transformers")
    subject = load_subject(f"{file}:gpt2")
    assert subject.batch["input_ids"].shape == (2, 16)
    assert subject.outputs(subject.model(**subject.batch)).shape == (2, 16, 20)


def test_a_seed_gives_the_same_model_and_leaves_the_generator_alone(file):
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    first, again, other = (load_subject(f"{file}:plain", seed=seed).model.weight for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no_such", "network 'no_such' is unknown"),
        ("{file}", "names a file only: name the function that makes the model too"),
        ("{file}:absent", "has no function 'absent'"),
        ("{file}:number", "returned a int: return a torch.nn.Module"),
        ("{file}:failing", "failing failed: RuntimeError: no weights here"),
        ("nowhere.py:make", "file 'nowhere.py' does not exist"),
    ],
)
def test_what_makes_no_model_says_why(file, spec, message):
    with pytest.raises(UsageError, match=message):
        load_subject(spec.format(file=file))
