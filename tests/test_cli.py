"""The command line as a user meets it: each command in a process of its own."""

import json
import subprocess
import sys

import pytest

from normbench.storage.stored_run import read_run

# Two rows shapes, cheap providers and a small budget: the whole path of a number in seconds.
QUICK = [
    "--grid",
    "8x64,16x96",
    "--provider",
    "eager,aten,triton",
    "--pass",
    "forward,forward_backward",
    "--budget",
    "0.2",
    "--threads",
    "1",
]


@pytest.fixture(scope="module")
def finished(normbench, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    process = normbench("run", *QUICK, "--json", cwd=folder)
    assert process.returncode == 0, process.stderr
    return folder, json.loads(process.stdout)


def test_run_ends_with_the_path_of_a_markdown_report_with_pictures(finished):
    folder, summary = finished
    report = folder / summary["report"]
    assert report.suffix == ".md"
    assert report.is_file()
    pictures = list(report.parent.glob("*.png"))
    assert pictures
    assert all(picture.name in report.read_text() for picture in pictures)


def test_every_case_and_provider_asked_for_is_one_record(finished):
    folder, summary = finished
    run = read_run(folder / summary["run"])
    # 2 shapes x 2 passes x 2 norms x 3 providers
    asked = [record for record in run.records if record.role.value == "provider"]
    assert len(asked) == len({record.key for record in asked}) == 2 * 2 * 2 * 3
    assert run.is_complete


def test_triton_without_a_gpu_is_checked_in_the_interpreter_and_says_so(finished):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    folder, summary = finished
    records = [r for r in read_run(folder / summary["run"]).records if r.provider == "triton" and r.case.pass_.value == "forward"]
    assert records
    for record in records:
        assert record.status.value == "skipped"
        assert "interpreter" in record.reason
        assert record.accuracy
        assert all(entry.passed for entry in record.accuracy)
        assert record.measurement is None


def test_latest_names_the_newest_run_and_report_writes_it_again(finished, normbench, tmp_path):
    folder, _ = finished
    process = normbench("report", "latest", "--out", tmp_path / "again", "--json", cwd=folder)
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "again" / "report.md").is_file()


def test_load_gives_one_row_per_record(finished):
    import normbench

    folder, summary = finished
    frame = normbench.load(folder / summary["run"])
    assert len(frame) == len(read_run(folder / summary["run"]).records)


def test_resuming_a_complete_run_measures_nothing(finished, normbench):
    folder, summary = finished
    before = (folder / summary["run"] / "records.jsonl").read_bytes()
    process = normbench("run", "--resume", "latest", cwd=folder)
    assert process.returncode == 0, process.stderr
    assert (folder / summary["run"] / "records.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--grid", "sed"], ["'sed'", "seed"]),
        (["run", "--grid", "4x-1"], ["4x-1"]),
        (["run", "--provider", "atem"], ["'atem'", "aten"]),
        (["run", "--provider", "./none.py"], ["none.py"]),
        (["run", "--provider", "apex"], ["'apex'", "fused_layer_norm_cuda", "APEX_CUDA_EXT=1 pip install"]),
        (["run", "--norm", "batch_norm"], ["'batch_norm'", "rms_norm"]),
        (["run", "--pass", "sideways"], ["'sideways'", "forward"]),
        (["run", "--dtype", "float8"], ["'float8'", "bfloat16"]),
        (["run", "--device", "cudaa"], ["cudaa"]),
        (["run", "--device", "cuda:99"], ["cuda:99"]),
        (["run", "--threads", "4096"], ["4096"]),
        (["run", "--threads", "0"], ["0"]),
        (["run", "--budget", "0"], ["budget"]),
        (["run", "--budget", "nan"], ["budget"]),
        (["run", "--cache", "hot"], ["'hot'", "cold"]),
        (["run", "--pages", "old"], ["'old'", "fresh"]),
        (["run", "--case", "op/rms_norm"], ["op/rms_norm"]),
        (["run", "--out", "/proc/none"], ["/proc/none"]),
        (["run", "--resume", "nothing"], ["nothing"]),
        (["report", "nothing"], ["nothing"]),
        (["list", "cases", "--grid", "sed"], ["'sed'"]),
    ],
)
def test_bad_input_gets_one_clear_line_and_a_non_zero_exit(normbench, tmp_path, arguments, words):
    process = normbench(*arguments, cwd=tmp_path)
    assert process.returncode not in (0, -9)
    lines = [line for line in process.stderr.strip().splitlines() if not line.startswith("starting")]
    assert len(lines) == 1, process.stderr
    assert all(word in lines[0] for word in words), lines
    assert not list(tmp_path.glob(".normbench/runs/*/run.json")), "nothing may be started"


def test_lists_are_json_for_machines(normbench):
    grids = json.loads(normbench("list", "grids", "--json", check=True).stdout)
    assert {"seed", "quick", "quack", "decode", "training", "odd", "qk"} <= {row["grid"] for row in grids}
    assert all(row["reason"] for row in grids)
    cases = json.loads(normbench("list", "cases", "--json", check=True).stdout)
    assert cases[0]["case"].startswith("op/")
    providers = json.loads(normbench("list", "providers", "--json", check=True).stdout)
    assert {"eager", "aten", "compile", "triton"} <= {row["provider"] for row in providers}
    by_name = {row["provider"]: row for row in providers}
    assert (by_name["aten"]["installed"], by_name["aten"]["note"]) == ("yes", "normbench.providers.aten")
    # A CUDA build of Apex is on no machine that tests run on.
    assert by_name["apex"]["installed"] == "no"
    assert by_name["apex"]["note"].startswith("needs apex and fused_layer_norm_cuda, not installed here: ")


def test_env_is_strict_json_and_gives_a_reason_for_what_it_does_not_know(normbench):
    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    found = json.loads(normbench("env", "--json", check=True).stdout, parse_constant=refuse)
    empty = [name for name, value in found["machine"].items() if value is None]
    assert set(empty) <= set(found["machine"]["reasons"])


def test_help_imports_nothing_heavy():
    code = "import sys; sys.argv = ['normbench', '--help']\nfrom normbench.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    code += "print([name for name in ('torch', 'pandas', 'matplotlib', 'scipy', 'rich', 'msgspec') if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown.strip().endswith("[]")
