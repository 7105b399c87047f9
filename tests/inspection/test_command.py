"""`normbench inspect` as a user meets it, in a process of its own, on a file of kernels of their own."""

import json
from pathlib import Path

import pytest

from . import sample_kernels

SAMPLES = Path(sample_kernels.__file__)

# One kernel, compiled in a second: the whole way from a file to a table.
SMALL = ["--norm", "rms_norm", "--pass", "forward", "--dtype", "bfloat16", "--convention", "torch", "--cols", "4096", "--arch", "sm_90"]


def kernels(name):
    return ["--provider", f"{SAMPLES}:{name}", *SMALL]


@pytest.fixture(scope="module")
def file_of(normbench, tmp_path_factory):
    """Return the path of what `--json` prints for a provider of the samples."""
    folder = tmp_path_factory.mktemp("inspected")

    def inspect(name):
        path = folder / f"{name}.json"
        if not path.exists():
            path.write_text(normbench("inspect", *kernels(name), "--json", check=True).stdout)
        return path

    return inspect


def test_the_table_shows_a_users_kernel(normbench):
    process = normbench("inspect", *kernels("sound"))
    assert process.returncode == 0, process.stderr
    header, row, summary = process.stdout.splitlines()
    assert header.split()[:3] == ["kernel", "provider", "norm"]
    assert row.startswith("scale_rows ")
    assert "100% of 8" in row
    assert summary == "1 variants, 1 of them distinct; 0 broken budgets"


def test_a_sound_kernel_keeps_its_budgets(normbench):
    process = normbench("inspect", *kernels("sound"), "--budget")
    assert (process.returncode, process.stdout) == (0, "1 variants, 1 of them distinct; 0 broken budgets\n")


def test_a_spilling_kernel_breaks_its_budget_by_its_stack(normbench, file_of):
    stack = json.loads(file_of("spilling").read_text())["variants"][0]["figures"]["stack_bytes"]
    assert stack > 0
    process = normbench("inspect", *kernels("spilling"), "--budget")
    assert process.returncode == 1
    assert f"{stack} bytes of stack a thread, 0 allowed" in process.stdout


def test_an_unvectorised_kernel_breaks_its_budget_by_its_narrow_loads(normbench):
    process = normbench("inspect", *kernels("narrow"), "--budget", "--json")
    assert process.returncode == 1
    (breach,) = json.loads(process.stdout)["broken"]
    assert breach["budget"] == "width"
    # 4096 columns on 128 threads.
    assert breach["message"] == "x_ptr: 32 of 32 loads narrower than 128 bits (32 of 16 bits)"


def test_json_has_every_figure(file_of):
    (found,) = json.loads(file_of("sound").read_text())["variants"]
    assert (found["kernel"], found["pass"], found["dtype"], found["cols"], found["arch"]) == (
        "scale_rows",
        "forward",
        "bfloat16",
        4096,
        "sm_90",
    )
    figures = found["figures"]
    assert (figures["loads"], figures["stores"], figures["stack_bytes"]) == ({"128": 8}, {"128": 4}, 0)
    assert len(figures["code_hash"]) == 64


def test_no_difference_between_two_files_of_one_code(normbench, file_of):
    process = normbench("inspect", "--diff", file_of("sound"), file_of("sound"))
    assert (process.returncode, process.stdout) == (0, "0 variants changed, 0 appeared, 0 disappeared, 1 are the same\n")


def test_a_changed_kernel_is_shown_with_both_figures_and_exit_1(normbench, file_of, tmp_path):
    text = file_of("spilling").read_text().replace(":spilling", ":sound")
    (tmp_path / "after.json").write_text(text)
    process = normbench("inspect", "--diff", file_of("sound"), tmp_path / "after.json")
    assert process.returncode == 1
    _, row, summary = process.stdout.splitlines()
    assert row.startswith("changed  scale_rows  sm_90")
    assert " → 24 " in row
    assert summary == "1 variants changed, 0 appeared, 0 disappeared, 0 are the same"


def test_other_kernels_are_a_difference(normbench, file_of):
    process = normbench("inspect", "--diff", file_of("sound"), file_of("narrow"), "--json")
    assert process.returncode == 1
    found = json.loads(process.stdout)
    assert [one["kernel"] for one in found["appeared"]] == ["scale_rows_anyhow"]
    assert [one["kernel"] for one in found["disappeared"]] == ["scale_rows"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arch", "sm_70"], ["'sm_70'", "sm_90"]),
        (["--provider", "eager"], ["'eager'", "no Triton kernel"]),
        (["--provider", "tritn"], ["'tritn'", "triton"]),
        (["--norm", "batch_norm"], ["'batch_norm'", "rms_norm"]),
        (["--dtype", "float8"], ["'float8'", "bfloat16"]),
        (["--pass", "sideways"], ["'sideways'", "forward"]),
        (["--cols", "many"], ["'many'"]),
        (["--cols", "0"], ["size 0"]),
        (["--rows", "0"], ["size 0"]),
        (["--case", "op/rms_norm"], ["op/rms_norm"]),
        (["--diff", "none.json", "none.json"], ["none.json"]),
        (["--provider", f"{SAMPLES}:failing", "--norm", "rms_norm"], ["there is no GPU here", "failing"]),
    ],
)
def test_bad_input_gets_one_clear_line_and_exit_2(normbench, tmp_path, arguments, words):
    process = normbench("inspect", *arguments, cwd=tmp_path)
    assert process.returncode == 2, process.stdout + process.stderr
    (line,) = process.stderr.strip().splitlines()
    assert all(word in line for word in words), line
