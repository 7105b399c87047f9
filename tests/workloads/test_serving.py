"""Serving through the cache gives the tokens that passes over the whole text give, call after call and after going back."""

import pytest
import torch

from normbench.cases.throughput_case import ThroughputCase
from normbench.models.networks import network
from normbench.workloads.serving import Decoding, Prefill, exact_logits, served_logits
from normbench.workloads.training import autocast_of

CPU = torch.device("cpu")
NONE = autocast_of(None, CPU)
# Absolute positions and LayerNorm; rotary positions, grouped keys and norms on queries and keys; compressed keys and values.
DECODERS = ("gpt2", "qwen3", "deepseek_v2")


@pytest.fixture(autouse=True)
def _here(one_thread):
    with torch.no_grad():
        yield


@pytest.fixture(params=DECODERS)
def decoder(request):
    found = network(request.param)
    return found.build("tiny", dtype=torch.float64).eval(), found.batch("tiny", seed=3, size=(3, 12))["input_ids"]


def greedy(model, tokens, count):
    """Return `count` tokens that follow, each from a pass over all before it."""
    written = tokens
    for _ in range(count):
        written = torch.cat([written, model(input_ids=written).logits[:, -1:].argmax(-1)], dim=1)
    return written[:, tokens.shape[1] :]


def test_a_prefill_chooses_the_token_that_follows_the_prompts(decoder):
    model, tokens = decoder
    assert torch.equal(Prefill(model, tokens, NONE)(), greedy(model, tokens, 1))


def test_decoding_writes_what_whole_passes_write_and_begins_again_from_the_prompts(decoder):
    model, tokens = decoder
    prompt = 9
    call = Decoding(model, tokens, prompt, NONE)

    def write(count):
        written = []
        for _ in range(count):
            call.make_room()
            written.append(call())
        return torch.cat(written, dim=1)

    # The first token follows from the prompt itself; calls write those after it, 12 - 9 of them before going back.
    expected = greedy(model, tokens[:, :prompt], 4)[:, 1:]
    assert torch.equal(write(3), expected)
    assert torch.equal(write(3), expected)


@pytest.mark.parametrize("mode", ["prefill", "decode"])
@pytest.mark.parametrize("name", DECODERS)
def test_logits_that_are_served_are_those_of_one_pass_without_a_cache(mode, name):
    found = network(name)
    case = ThroughputCase.make(name, "tiny", found.norm, mode, (2, 16), "float64")
    model, tokens = found.build("tiny", dtype=torch.float64).eval(), found.batch("tiny", size=(2, 16))["input_ids"]
    served, exact = served_logits(case, model, tokens), exact_logits(case, model, tokens)
    assert served.shape[:2] == (2, 4 if mode == "decode" else 1)
    torch.testing.assert_close(served, exact, rtol=1e-9, atol=1e-9)
