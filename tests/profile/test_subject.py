"""What is profiled: by name, by case id, or from a file; and what can never work."""

import pytest
import torch

from normbench.cases.case import Pass
from normbench.errors import UsageError
from normbench.models.norms import find_norms
from normbench.profile.subject import Wish, make_subjects

pytestmark = pytest.mark.usefixtures("one_thread")

FILE = """
import torch
from torch import nn


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return {"scores": self.norm(x)}


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Scores()

    def forward(self, x):
        return self.body(x)


def make():
    return Whole(), {"x": torch.ones(2, 8)}


def bare():
    return Whole()


def frozen():
    return Whole().requires_grad_(False), {"x": torch.ones(2, 8)}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(FILE)
    return path


def test_a_network_by_its_name_is_its_first_preset_in_both_passes():
    subjects = make_subjects(Wish(case="transformer"))
    assert [(one.label, one.pass_, one.dtype, one.norms) for one in subjects] == [
        ("transformer-tiny", pass_, "float32", "norms as they are") for pass_ in (Pass.FORWARD, Pass.FORWARD_BACKWARD)
    ]
    assert subjects[0].model is subjects[1].model


def test_forward_is_without_gradients_and_a_training_step_leaves_them():
    forward, train = make_subjects(Wish(case="transformer-tiny"))
    forward.step()
    assert all(parameter.grad is None for parameter in forward.model.parameters())
    train.step()
    assert any(parameter.grad is not None for parameter in train.model.parameters())


def test_a_case_id_says_network_norm_pass_and_dtype():
    (native,) = make_subjects(Wish(case="transformer-tiny", passes=("forward",)))
    (subject,) = make_subjects(Wish(case=f"model/transformer-tiny/rms_norm/forward_backward/{native.size}/float32", provider="eager"))
    assert (subject.label, subject.pass_, subject.size, subject.norms) == (
        "transformer-tiny",
        Pass.FORWARD_BACKWARD,
        native.size,
        "rms_norm by eager",
    )
    assert {found.norm.value for found in find_norms(subject.model)} == {"rms_norm"}


def test_the_norms_of_a_case_id_that_the_network_has_anyway_are_left_as_they_are():
    (native,) = make_subjects(Wish(case="transformer-tiny", passes=("forward",)))
    (subject,) = make_subjects(Wish(case=f"model/transformer-tiny/layer_norm/forward/{native.size}/float32"))
    assert subject.norms == "norms as they are"


def test_the_dtype_is_that_of_the_weights():
    (subject,) = make_subjects(Wish(case="transformer-tiny", passes=("forward",), dtype="bfloat16"))
    assert {parameter.dtype for parameter in subject.model.parameters()} == {torch.bfloat16}


def test_a_file_makes_a_module_and_its_inputs(file):
    forward, train = make_subjects(Wish(case=f"{file}:make", provider="aten"))
    assert (forward.size, forward.dtype, forward.norms) == ("2x8", "float32", "norms by aten")
    train.step()
    assert forward.model.body.norm.weight.grad is not None


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Wish(case="transfomer"), "'transfomer' is unknown"),
        (Wish(case="transformer-huge"), "'transformer-huge' is unknown"),
        (Wish(case="transformer", passes=("backward",)), "pass 'backward'"),
        (Wish(case="transformer", dtype="float8"), "dtype 'float8'"),
        (Wish(case="transformer", norm="batch_norm"), "norm 'batch_norm'"),
        (Wish(case="transformer", provider="atem"), "provider 'atem'"),
        (Wish(case="op/rms_norm/forward/2x8/float32"), "model/network-preset"),
        (Wish(case="model/transformer-tiny/rms_norm/forward/9x9/float32"), "not 9x9"),
        (Wish(case="model/transformer-tiny/rms_norm/forward/9x9/float32", norm="layer_norm"), "norm 'layer_norm' beside the case id"),
        (Wish(case="model/transformer-tiny/rms_norm/forward/9x9/float32", passes=("forward",)), "pass 'forward' beside the case id"),
        (Wish(case="none.py:make"), "none.py"),
    ],
)
def test_what_cannot_work_is_said(wish, words):
    with pytest.raises(UsageError, match=words):
        make_subjects(wish)


@pytest.mark.parametrize(
    ("function", "wish", "words"),
    [
        ("other", {}, "no function 'other'"),
        ("bare", {}, "says nothing of its inputs"),
        ("make", {"dtype": "float32"}, "dtype 'float32' beside"),
    ],
)
def test_a_file_that_cannot_be_profiled_is_told(file, function, wish, words):
    with pytest.raises(UsageError, match=words):
        make_subjects(Wish(case=f"{file}:{function}", **wish))


def test_an_output_without_gradients_has_no_training_step(file):
    _, train = make_subjects(Wish(case=f"{file}:frozen"))
    with pytest.raises(UsageError, match="--pass forward"):
        train.step()
