"""The networks: made from a seed alone, ready to be timed, in two sizes."""

import pytest
import torch

import normbench.models.networks
from normbench import UsageError
from normbench.cases.case import Norm
from normbench.catalogue import Requirement
from normbench.models.networks import PRESETS, Position, network, networks

from .families import PLACES

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = [one.name for one in networks()]


def test_the_families_are_all_there():
    assert PLACES.keys() == set(NAMES)
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_a_training_step_runs_and_every_parameter_takes_part(name):
    found = network(name)
    model, batch = found.build("tiny"), found.batch("tiny")
    assert model.training
    output = found.outputs(model, batch)
    loss = found.loss(model, batch)
    assert loss.shape == ()
    assert loss.isfinite()
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    # Nothing is dropped: a second forward pass, with torch's generator elsewhere, is the first one.
    assert torch.equal(found.outputs(model, batch), output)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_is_all_that_weights_and_inputs_depend_on(name):
    found = network(name)
    state = torch.random.get_rng_state()
    first, second, other = (found.build("tiny", seed=seed) for seed in (0, 0, 1))
    batches = [found.batch("tiny", seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(torch.random.get_rng_state(), state)
    pairs = list(zip(first.parameters(), second.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not any(torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))
    for key, value in batches[0].items():
        assert torch.equal(value, batches[1][key])
        assert not torch.equal(value, batches[2][key])


@pytest.mark.parametrize("name", ["gpt2", "llama", "vit", "gru"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_another_dtype_is_the_same_network_rounded(name, dtype):
    found = network(name)
    wide, model = found.build("tiny"), found.build("tiny", dtype=dtype)
    for a, b in zip(wide.parameters(), model.parameters(), strict=True):
        assert torch.equal(a.to(dtype), b)
    batch = found.batch("tiny", dtype=dtype)
    output = found.outputs(model, batch)
    assert output.dtype == dtype
    torch.testing.assert_close(output.float(), found.outputs(wide, found.batch("tiny")), rtol=0.1, atol=0.1)


def test_angles_of_rotary_positions_stay_exact_in_16_bits():
    model = network("llama").build("tiny", dtype=torch.bfloat16)
    angles = {name: buffer.dtype for name, buffer in model.named_buffers() if "inv_freq" in name}
    assert angles
    assert set(angles.values()) == {torch.float32}


@pytest.mark.parametrize("name", NAMES)
def test_norms_do_not_start_at_one_and_zero(name):
    model = network(name).build("tiny")
    vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    assert vectors
    assert all(vector.std() > 0.05 for vector in vectors)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", NAMES)
def test_size_is_the_shape_of_the_main_input(name, preset):
    found = network(name)
    assert found.size(preset) == tuple(next(iter(found.batch(preset).values())).shape)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("gpt2", 768),
        ("gpt3", 12288),
        ("bert", 768),
        ("t5", 1024),
        ("llama", 4096),
        ("qwen2", 3584),
        ("qwen3", 4096),
        ("deepseek_v2", 5120),
        ("deepseek_v3", 7168),
        ("vit", 6144),
    ],
)
def test_full_has_the_width_of_the_published_model(name, width):
    model = network(name).build("full", device="meta")
    norms = [module for module in model.modules() if "Norm" in type(module).__name__ and hasattr(module, "weight")]
    assert max(norm.weight.numel() for norm in norms) == width
    assert len(norms) == sum(PLACES[name].values())


def test_each_says_its_norm_and_where_it_stands():
    assert {one.name for one in networks() if one.norm is Norm.RMS_NORM} == {"t5", "llama", "qwen2", "qwen3", "deepseek_v2", "deepseek_v3"}
    assert {one.name for one in networks() if one.position is Position.POST} == {"bert", "transformer"}
    assert {one.name for one in networks() if one.position is Position.INNER} == {"gru", "cnn"}


def test_an_unknown_name_or_preset_is_answered_by_the_known_ones():
    with pytest.raises(UsageError, match="'gpt5' is unknown; known are gpt2, gpt3, bert"):
        network("gpt5")
    with pytest.raises(UsageError, match="'gpt2' has no preset 'huge'; known are tiny, full"):
        network("gpt2").build("huge")


def test_a_missing_package_is_named_with_the_command_that_brings_it(monkeypatch):
    absent = Requirement(modules=("no_such_package",), command="pip install 'normbench[transformers]'")
    monkeypatch.setattr(normbench.models.networks, "REQUIREMENTS", {"transformers": absent})
    with pytest.raises(UsageError, match=r"'gpt2' needs no_such_package, not installed here: pip install 'normbench\[transformers\]'"):
        network("gpt2").build("tiny")
    assert network("cnn").build("tiny") is not None
