"""The tuner compiles, ranks and writes down, without a GPU; nobody in the package imports it."""

import json
import subprocess
import sys

import pytest
import typer
from test_architecture import MODULES, relative_imports
from typer.testing import CliRunner

from normbench.errors import UsageError
from normbench.inspection.survey import cases_in_scope
from normbench.tuning.command import tune
from normbench.tuning.compilation import questions_of

TUNER = "tuning"


@pytest.fixture(scope="module")
def run():
    """Return a function that runs the command and returns its result."""
    app = typer.Typer()
    app.command()(tune)
    return lambda *arguments: CliRunner().invoke(app, [*map(str, arguments), "--workers", "1"])


def test_nothing_in_the_package_imports_the_tuner():
    outside = [name for name in MODULES if not (name + ".").startswith(TUNER + ".")]
    assert "kernels.calls" in outside
    assert {name for name in outside if any((used + ".").startswith(TUNER + ".") for used in relative_imports(name))} == set()


def test_what_a_timed_run_loads_has_no_tuner_in_it():
    code = "import sys, normbench.providers.triton, normbench.measure.block, normbench.job.run; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "normbench.kernels.calls" in loaded
    assert [name for name in loaded if name.startswith(f"normbench.{TUNER}")] == []


def test_it_tries_launches_for_every_architecture_and_writes_them_down(run, tmp_path):
    figures, table = tmp_path / "found.json", tmp_path / "found.md"
    asked = ["--cols", 64, "--dtype", "bfloat16", "--norm", "rms_norm", "--pass", "forward", "--arch", "sm_80,sm_90"]
    done = run(*asked, "--json", figures, "--markdown", table)
    assert done.exit_code == 0, done.output
    assert "64 columns" in done.output
    assert [line.split("|")[4].strip() for line in table.read_text().splitlines()[4:]] == ["sm_80", "sm_90", "all"]
    found = json.loads(figures.read_text())
    assert {one["arch"] for one in found} == {"sm_80", "sm_90"}
    assert {one["case"] for one in found} == {"op/rms_norm/forward/32768x64/bfloat16"}
    launches = {json.dumps(one["launch"]) for one in found}
    assert len(launches) * 2 == len(found)
    assert {one["launch"]["num_warps"] for one in found} == {2, 4, 8}
    for one in found:
        assert one["error"] is None
        assert one["estimate"]["registers"] > 0
        assert one["estimate"]["slowdown"] >= 1
        assert one["estimate"]["broken"] or one["estimate"]["stack_bytes"] == 0
    # Fewer warps hold more elements a thread, in more registers.
    registers = {one["launch"]["num_warps"]: one["estimate"]["registers"] for one in found if one["launch"]["block_rows"] == 32}
    assert registers[2] > registers[4] > registers[8]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arch", "sm_86"], "arch 'sm_86' has no device in the model"),
        (["--cols", "wide"], "cols 'wide' is no width"),
        (["--cols", "0"], "cols '0' is no width"),
        (["--cols", ""], "there is nothing to tune"),
        (["--pass", "forward_backward"], "ask for forward or backward"),
        (["--norm", "batch_norm"], "batch_norm"),
    ],
)
def test_what_can_never_work_is_refused_with_the_remedy(run, arguments, message):
    done = run("--cols", 64, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_question_has_all_norms_that_one_launch_serves():
    cases = cases_in_scope(norms=("layer_norm", "rms_norm"), passes=("forward", "backward"), dtypes=("bfloat16",), cols=(64, 128))
    questions = questions_of(cases)
    assert {(one.direction.value, one.cols) for one in questions} == {(way, cols) for way in ("forward", "backward") for cols in (64, 128)}
    assert len(questions) == 4
    assert all([case.norm_label for case in one.cases] == ["layer_norm", "rms_norm"] for one in questions)


def test_both_directions_at_once_are_no_question():
    with pytest.raises(UsageError, match="two kernels, which are tuned apart"):
        questions_of(cases_in_scope(norms=("rms_norm",), passes=("forward_backward",), dtypes=("bfloat16",), cols=(64,)))
