"""`normbench models convert`: a table for people, JSON for machines, a checkpoint in, a checkpoint out."""

import json

import pytest
import torch
import typer
from typer.testing import CliRunner

from normbench import UsageError
from normbench.cli.convert import convert
from normbench.models.checkpoint import read_tensors, write_tensors
from normbench.models.sources import load_subject
from normbench.models.toy import ToyLanguageModel

pytestmark = pytest.mark.usefixtures("one_thread")

FILE = """
import torch
from normbench.models.toy import ToyLanguageModel

def model(**options):
    model = ToyLanguageModel(40, 16, 32, 2, 4, **options)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, mean=0.5, std=0.3)
    return model

def toy():
    return model(), {"tokens": torch.randint(0, 40, (2, 12))}

def post():
    return model(scheme="post"), {"tokens": torch.randint(0, 40, (2, 12))}

def unsaid():
    return model()
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path / "mine.py"


def run(*arguments):
    """Return what the command prints; its errors are raised, as `main` sees them."""
    app = typer.Typer()
    app.command()(convert)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_the_table_says_of_each_norm_where_centring_and_bias_went_and_what_is_left(file):
    printed = run(f"{file}:toy")
    assert "5 LayerNorms converted to RMSNorms, 5 exactly, 0 approximately" in printed
    (final,) = [line for line in printed.splitlines() if line.startswith("stack.final_norm")]
    assert "folded into embedding, position" in final
    assert final.rstrip().endswith("exact")
    assert "new parameter, which the model's class does not make by itself: head.bias" in printed
    (row,) = [line.split() for line in printed.splitlines() if line.startswith("random  float64")]
    # inputs, dtype, unchanged, then relative and largest of copied and of converted
    assert float(row[3]) > 1e-2
    assert float(row[5]) < 1e-14


def test_post_ln_is_called_approximate(file):
    printed = run(f"{file}:post")
    assert "4 LayerNorms converted to RMSNorms, 0 exactly, 4 approximately" in printed
    assert "approximate: Post-LN" in printed


def test_json_holds_every_norm_and_every_deviation(file):
    found = json.loads(run(f"{file}:toy", "--json"))
    assert found["exact"] is True
    assert len(found["norms"]) == 5
    assert found["norms"][-1] == {
        "name": "stack.final_norm",
        "centring": "folded into embedding, position, stack.blocks.*.sublayer.output, stack.blocks.*.sublayer.*",
        "bias": "folded into head",
        "reasons": [],
        "exact": True,
    }
    assert [(one["dtype"], one["method"]) for one in found["deviations"]] == [
        ("float64", "copied"),
        ("float64", "folded"),
        ("float32", "unchanged"),
        ("float32", "copied"),
        ("float32", "folded"),
    ]


def test_a_checkpoint_is_converted_and_written_and_computes_the_same(file, tmp_path):
    torch.manual_seed(7)
    trained = ToyLanguageModel(40, 16, 32, 2, 4).double()
    for parameter in trained.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    write_tensors(tmp_path / "trained.pt", trained.state_dict())
    tokens = torch.randint(0, 40, (3, 9))
    write_tensors(tmp_path / "inputs.pt", {"tokens": tokens})
    printed = run(
        f"{file}:toy", "--checkpoint", tmp_path / "trained.pt", "--inputs", tmp_path / "inputs.pt", "--out", tmp_path / "converted.pt"
    )
    assert f"wrote {tmp_path / 'converted.pt'}" in printed
    assert any(line.startswith("given   float64") for line in printed.splitlines())
    converted = ToyLanguageModel(40, 16, 32, 2, 4, norm=lambda width: torch.nn.RMSNorm(width, eps=1e-5)).double()
    converted.head = torch.nn.Linear(32, 40).double()
    converted.load_state_dict(read_tensors(tmp_path / "converted.pt"))
    torch.testing.assert_close(converted(tokens), trained(tokens), rtol=1e-11, atol=1e-11)


def test_a_network_is_taken_by_its_name():
    assert "cnn (tiny): 9 LayerNorms converted to RMSNorms, 0 exactly, 9 approximately" in run("cnn")


def test_a_file_that_is_there_is_refused_before_anything_is_computed(file, tmp_path):
    (tmp_path / "taken.pt").touch()
    with pytest.raises(UsageError, match="exists: name another file"):
        run("no_such_network", "--out", tmp_path / "taken.pt")


def test_a_checkpoint_of_another_size_is_refused_naming_the_key(file, tmp_path):
    state = load_subject(f"{file}:toy").model.state_dict()
    write_tensors(tmp_path / "wide.pt", state | {"stack.final_norm.weight": torch.ones(64)})
    with pytest.raises(UsageError, match=r"wide.pt' does not fit: 'stack.final_norm.weight' has shape \(64,\) in it and \(32,\)"):
        run(f"{file}:toy", "--checkpoint", tmp_path / "wide.pt")


def test_a_model_whose_inputs_nobody_knows_asks_for_them(file, tmp_path):
    with pytest.raises(UsageError, match=r"it is not known what .*unsaid takes: give --inputs"):
        run(f"{file}:unsaid")
    write_tensors(tmp_path / "inputs.pt", {"tokens": torch.zeros(1, 3, dtype=torch.int64)})
    assert "5 exactly" in run(f"{file}:unsaid", "--inputs", tmp_path / "inputs.pt")
