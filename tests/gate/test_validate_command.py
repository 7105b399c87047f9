"""`normbench gate validate` by the real engine; how often it is right is a validation's business and not a test's."""

import json

CASE = "op/rms_norm/forward/4x64/float32@aten"


def test_runs_are_taken_kept_and_reported_again_from_what_was_kept(normbench, tmp_path):
    chosen = ("--cases", CASE, "--runs", "1", "--inject", "0,50", "--budget", "30s", "--out", "kept")
    done = normbench("gate", "validate", *chosen, "--markdown", "report.md", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["runs"] == 2
    (detection,) = found["detections"]
    # The loop's turns are whole, and a call of some microseconds has hundreds of them.
    assert 0.45 < detection["slowdown"] < 0.55
    (folder,) = (tmp_path / "kept").iterdir()
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    slowed = next(one for one in trials if one["run"]["slowed"])
    logs = sorted(slowed["run"]["logs"][CASE])
    # Half as long again is 0.405 in logs; blocks of whatever machine this is lie far from 0.
    assert logs[len(logs) // 2] > 0.2
    assert (tmp_path / "report.md").read_text().startswith("# The gate, validated")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    again = normbench("gate", "validate", "--replay", str(folder), "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == found


def test_case_without_a_provider_beside_one_with_is_refused(normbench, tmp_path):
    done = normbench("gate", "validate", "--cases", f"{CASE},op/rms_norm/forward/8x64/float32", cwd=tmp_path)
    assert done.returncode == 2
    assert "names no provider" in done.stderr


def test_unknown_provider_is_refused_before_anything_runs(normbench, tmp_path):
    done = normbench("gate", "validate", "--cases", "op/rms_norm/forward/8x64/float32@nobody", cwd=tmp_path)
    assert done.returncode == 2
    assert "'nobody' is unknown" in done.stderr
    assert not (tmp_path / ".normbench").exists()
