"""`pytest --benchmark-only` with the suites: pytest-benchmark's own interface over the engine's samples."""

import json
import shutil
from pathlib import Path

import pytest

from normbench.plugin import ReplayTimer
from normbench.quantities.stats import pooled_samples
from normbench.storage.stored_run import read_run

SUITES = Path(__file__).parent.parent / "suites"
OPTIONS = ["--nb-grid=8x64", "--nb-norm=rms_norm", "--nb-pass=forward", "--nb-budget=0.2", "--nb-threads=1"]


@pytest.fixture
def suite(pytester):
    """A checkout in small: the op suite, in a folder of its own."""
    shutil.copytree(SUITES / "op", pytester.path / "suites")
    pytester.makeini("[pytest]\naddopts = --benchmark-skip\ntestpaths = suites")
    return pytester


def run(suite, *arguments):
    return suite.runpytest_subprocess("-p", "no:cacheprovider", *OPTIONS, *arguments)


def test_a_replayed_timer_gives_back_the_samples_as_differences():
    timer = ReplayTimer()
    timer.load([0.5, 0.25])
    readings = [timer() for _ in range(4)]
    assert [readings[1] - readings[0], readings[3] - readings[2]] == [0.5, 0.25]


def test_the_table_json_and_compare_show_the_engines_samples(suite):
    result = run(
        suite,
        "--benchmark-only",
        "--nb-provider=eager,aten",
        "--benchmark-json=out.json",
        "--benchmark-save=one",
        "--benchmark-columns=median",
    )
    assert result.ret == 0
    result.assert_outcomes(passed=2)
    entries = json.loads((suite.path / "out.json").read_text())["benchmarks"]
    measured = {record.provider: record for record in read_run("latest", root=suite.path / ".normbench/runs").records}
    for entry in entries:
        samples = pooled_samples(measured[entry["extra_info"]["provider"]].measurement)
        assert entry["stats"]["rounds"] == len(samples)
        assert entry["stats"]["min"] == pytest.approx(min(samples))
        assert entry["stats"]["max"] == pytest.approx(max(samples))
        assert entry["extra_info"]["case"] == "op/rms_norm/forward/8x64/float32"
    # A second run compares with the first by itself: ids are stable.
    again = run(suite, "--benchmark-only", "--nb-provider=aten", "--benchmark-compare=0001")
    assert again.ret == 0
    again.stdout.fnmatch_lines(["*aten*(NOW)*"])
    again.stdout.fnmatch_lines(["*aten*(0001_one)*"])
    table = suite.run("pytest-benchmark", "compare", "0001", "--columns=median")
    assert table.ret == 0
    table.stdout.fnmatch_lines(["*aten*"])


def test_plain_pytest_does_not_benchmark(suite):
    result = run(suite, "--nb-provider=aten")
    result.assert_outcomes(skipped=1)
    assert not (suite.path / ".normbench").exists()


def test_disabled_benchmarks_measure_nothing(suite):
    suite.makeini("[pytest]\ntestpaths = suites")
    result = run(suite, "--nb-provider=aten", "--benchmark-disable")
    result.assert_outcomes(skipped=1)
    assert not (suite.path / ".normbench").exists()


def test_benchmarks_under_xdist_are_refused(suite):
    # B18: with workers the "disabled" message shows, and yet benchmarks run beside each other.
    result = run(suite, "--benchmark-only", "--nb-provider=aten", "-n2", "--benchmark-autosave")
    assert result.ret != 0
    assert not (suite.path / ".normbench").exists()
    assert not list(suite.path.glob(".benchmarks/**/*.json"))


def test_a_wrong_provider_fails_its_test_and_no_other(suite):
    suite.makepyfile(
        wrong="""
        import normbench

        @normbench.provider("wrong", norms=["rms_norm"])
        def wrong(x, weight, bias, residual, eps):
            return x * 1.01
        """
    )
    result = run(suite, "--benchmark-only", "--nb-provider=aten,./wrong.py")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*wrong: y is off*"])


def test_an_unsupported_case_is_skipped_with_its_reason(suite):
    result = run(suite, "--benchmark-only", "--nb-provider=eager,triton", "--nb-weight-dtype=float64", "-rs")
    assert result.parseoutcomes().get("failed", 0) == 0
    result.stdout.fnmatch_lines(["*unsupported: *"])


@pytest.mark.parametrize(
    "option", ["--nb-grid=sed", "--nb-provider=atem", "--nb-threads=4096", "--nb-budget=0", "--nb-device=cuda:99", "--nb-out=/proc/none"]
)
def test_bad_options_end_the_session_before_anything_is_measured(suite, option):
    result = run(suite, "--benchmark-only", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "normbench: " in result.stdout.str() + result.stderr.str()
    assert not list(suite.path.glob(".normbench/runs/*/run.json"))


NETWORK = ["--nb-tier=model", "--nb-network=cnn", "--nb-pass=forward", "--nb-norm=layer_norm,rms_norm", "--nb-budget=0.2"]


def test_a_network_is_measured_with_its_norms_alone_beside_it(pytester):
    shutil.copytree(SUITES, pytester.path / "suites")
    pytester.makeini("[pytest]\naddopts = --benchmark-skip\ntestpaths = suites")
    options = ["-p", "no:cacheprovider", "--benchmark-only", *NETWORK, "--nb-threads=1", "--nb-provider=aten"]
    result = pytester.runpytest_subprocess(*options)
    assert result.parseoutcomes().get("passed") == 2
    result.stdout.fnmatch_lines(["*model/cnn-tiny/norm/forward/2x3x32x32/float32@cpu/1t/warm/reused-rms_norm:aten*"])
    found = read_run("latest", root=pytester.path / ".normbench/runs")
    assert found.is_complete
    networks = [record for record in found.records if record.case.tier == "model"]
    assert [(record.case.norm.value, record.provider) for record in networks] == [
        ("layer_norm", "aten"),
        ("rms_norm", "aten"),
        ("layer_norm", "no_norm"),
    ]
    assert len({record.group for record in networks}) == 1
    for record in networks[:2]:
        assert set(record.settings["norm_calls"]) <= {one.case_id for one in found.records if one.measurement is not None}


def test_training_and_serving_are_measured_by_the_call(pytester):
    shutil.copytree(SUITES, pytester.path / "suites")
    pytester.makeini("[pytest]\naddopts = --benchmark-skip\ntestpaths = suites")
    options = ["--nb-tier=throughput", "--nb-network=gpt2", "--nb-mode=decode", "--nb-batch=2", "--nb-norm=rms_norm", "--nb-sustain=0.2"]
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--benchmark-only", *options, "--nb-budget=0.2", "--nb-threads=1", "--nb-provider=aten"
    )
    assert result.parseoutcomes().get("passed") == 1
    result.stdout.fnmatch_lines(["*throughput/gpt2-tiny/norm/decode/2x64/float32@cpu/1t/warm/reused-rms_norm:aten*"])
    found = read_run("latest", root=pytester.path / ".normbench/runs")
    (record,) = (one for one in found.records if one.role.value == "provider")
    assert record.metric == record.case.metric
    assert record.sustained.duration_s >= 0.2


@pytest.mark.parametrize("option", ["--nb-network=gpt5", "--nb-preset=huge", "--nb-grid=quick", "--nb-pass=backward"])
def test_bad_choices_of_networks_end_the_session(pytester, option):
    shutil.copytree(SUITES, pytester.path / "suites")
    pytester.makeini("[pytest]\naddopts = --benchmark-skip\ntestpaths = suites")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--benchmark-only", *NETWORK, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "normbench: " in result.stdout.str() + result.stderr.str()


def test_deselected_providers_are_not_measured(suite):
    run(suite, "--benchmark-only", "--nb-provider=eager,aten", "-k", "aten").assert_outcomes(passed=1, deselected=1)
    assert {
        record.provider for record in read_run("latest", root=suite.path / ".normbench/runs").records if record.role.value == "provider"
    } == {"aten"}


def test_resume_measures_only_the_rest(suite):
    run(suite, "--benchmark-only", "--nb-provider=aten").assert_outcomes(passed=1)
    path = read_run("latest", root=suite.path / ".normbench/runs").path
    before = (path / "records.jsonl").read_bytes()
    run(suite, "--benchmark-only", "--nb-provider=aten", "--nb-resume").assert_outcomes(passed=1)
    assert (path / "records.jsonl").read_bytes() == before


def test_a_first_gate_without_a_baseline_saves_one_and_says_so(suite):
    # B04: pytest-benchmark itself ends with a usage error when --benchmark-compare-fail finds nothing to compare with.
    arguments = ["--benchmark-only", "--nb-provider=aten", "--benchmark-compare", "--benchmark-compare-fail=median:10000%"]
    result = run(suite, *arguments)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["no baseline: *"])
    assert len(list(suite.path.glob(".benchmarks/*/0001_baseline.json"))) == 1
    again = run(suite, *arguments)
    assert again.ret == 0
    assert "no baseline" not in again.stdout.str()
