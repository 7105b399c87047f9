"""Checkpoints: read, fitted and written; what does not fit is named."""

import re

import pytest
import torch
from torch import nn

from normbench import UsageError
from normbench.models.checkpoint import load_into, read_tensors, write_tensors


class Tied(nn.Module):
    base_model_prefix = "body"

    def __init__(self):
        super().__init__()
        self.body = nn.ModuleDict({"embedding": nn.Embedding(5, 4), "norm": nn.LayerNorm(4)})
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.body["embedding"].weight
        self._keys_to_ignore_on_load_unexpected = [r"old_mask$"]


@pytest.fixture
def state():
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(tensor.shape, generator=generator) for name, tensor in Tied().state_dict().items() if name != "head.weight"}


@pytest.fixture(params=["weights.safetensors", "weights.pt"])
def path(request, tmp_path):
    if request.param.endswith("safetensors"):
        pytest.importorskip("safetensors")
    return tmp_path / request.param


def test_what_is_written_is_read_again(path, state):
    # Tied tensors and views too.
    state["tied"] = state["body.norm.weight"]
    state["view"] = state["body.embedding.weight"].T
    state["half"] = torch.ones(2, dtype=torch.bfloat16)
    write_tensors(path, state)
    found = read_tensors(path)
    assert found.keys() == state.keys()
    assert all(torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in state.items())


def test_a_file_that_is_there_is_not_written_over(path, state):
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists: name another one"):
        write_tensors(path, state)
    assert path.read_text() == "mine"


def test_all_tensors_are_loaded_and_a_tied_one_once(state):
    model = Tied()
    load_into(model, state, "it")
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in state.items())
    assert model.head.weight is model.body["embedding"].weight


def test_keys_of_the_body_alone_are_loaded_and_those_of_old_versions_left_out(state):
    model = Tied()
    load_into(model, {name.removeprefix("body."): tensor for name, tensor in state.items()} | {"norm.old_mask": torch.ones(3)}, "it")
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in state.items())


def test_a_model_takes_the_dtype_of_its_checkpoint(state):
    model = Tied()
    load_into(model, {name: tensor.bfloat16() for name, tensor in state.items()}, "it")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    mixed = Tied()
    load_into(mixed, state | {"body.norm.weight": state["body.norm.weight"].bfloat16()}, "it")
    assert {parameter.dtype for parameter in mixed.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("body.norm.bias"), "it lacks the key 'body.norm.bias' of Tied"),
        (lambda state: state.update({"body.gate": torch.ones(1)}), "it has the key 'body.gate', which Tied has not"),
        (
            lambda state: state.update({"norm.weight": torch.ones(9)}),
            "it does not fit: 'body.norm.weight' has shape (9,) in it and (4,) in Tied",
        ),
        (
            lambda state: state.update({"head.weight": torch.ones(5, 4)}),
            "it has two values for 'body.embedding.weight' and 'head.weight', one tensor in Tied",
        ),
    ],
    ids=["missing", "unexpected", "shape", "untied"],
)
def test_a_checkpoint_that_does_not_fit_is_refused_naming_the_key_and_changes_nothing(state, change, message):
    change(state)
    model = Tied()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(UsageError, match=re.escape(message)):
        load_into(model, state, "it")
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


class Trap:
    """What would run code when it is unpickled."""

    def __reduce__(self):
        return print, ("run",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Trap(), "cannot be read as tensors by name"),
        ([1], "holds a list, not tensors by name"),
        ({"state_dict": {"a": torch.ones(1)}}, "holds a dict at 'state_dict', not a tensor"),
    ],
    ids=["code", "list", "nested"],
)
def test_a_file_of_anything_but_tensors_is_refused_and_runs_nothing(tmp_path, capsys, content, message):
    torch.save(content, tmp_path / "it.pt")
    with pytest.raises(UsageError, match=message):
        read_tensors(tmp_path / "it.pt")
    assert "run" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["it.safetensors", "it.pt"])
def test_a_file_that_is_broken_or_absent_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="does not exist"):
        read_tensors(tmp_path / name)
    (tmp_path / name).write_bytes(b"no tensors here")
    with pytest.raises(UsageError, match="cannot be read as tensors by name"):
        read_tensors(tmp_path / name)
