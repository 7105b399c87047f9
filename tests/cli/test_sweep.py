"""`normbench sweep` from the outside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from normbench.cli import app
from normbench.cli.show import EXIT_INTERRUPTED
from normbench.errors import UsageError

LIMIT_BYTES = 128 * 2**20
QUICK = ("--network", "gpt2", "--mode", "train", "--norm", "rms_norm", "--provider", "eager,aten", "--threads", "1", "--budget", "0.05")
SEARCHED = (*QUICK, "--start", "8", "--resolution", "0.5", "--memory-limit", "128MiB")


def invoked(*arguments):
    return CliRunner().invoke(app, ["sweep", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--network", "no-such"), "network 'no-such' is unknown"),
        (("--provider", ""), "no provider was asked for"),
        (("--memory-limit", "much"), "memory-limit 'much' is no amount of memory"),
        (("--start", 8, "--most", 4), "most 4 is below start 8"),
        (("--resolution", 1), "resolution 1 is no share"),
        (("--threads", 0), "threads 0 is less than 1"),
        (("--network", "cnn", "--mode", "decode"), "network 'cnn' takes no tokens"),
        (("--network", "cnn", "--tokens", 8), "network 'cnn' takes no tokens"),
        (("--mode", "decode", "--accumulation", 4), "accumulation 4 means nothing here: mode 'decode' trains nothing"),
        (("--mode", "prefill,decode", "--checkpointing"), "checkpointing means nothing here: mode 'prefill,decode' trains nothing"),
    ],
)
def test_words_that_cannot_work_are_refused_before_a_folder_is_made(arguments, why, tmp_path):
    with pytest.raises(UsageError, match=why):
        invoked(*QUICK, *arguments, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_interrupted_sweep_keeps_what_was_done_and_goes_on_to_its_end(tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "normbench.cli", "sweep", *SEARCHED, "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        lines = out / "entries.jsonl"
        while process.poll() is None and (not lines.exists() or lines.read_bytes().count(b"\n") < 3):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == EXIT_INTERRUPTED, said
    assert "--resume goes on from them" in said
    assert "cut short before the largest batch was found" in (out / "sweep.md").read_text()
    kept = lines.read_bytes()

    with pytest.raises(UsageError, match="go on with it by --resume"):
        invoked(*SEARCHED, "--out", out)

    done = invoked(*SEARCHED, "--out", out, "--resume", "--json")
    assert done.exit_code == 0
    assert lines.read_bytes().startswith(kept)
    found = json.loads(done.stdout)
    assert found["limit"]["limit_bytes"] == LIMIT_BYTES
    assert not found["is_interrupted"]
    (company,) = found["companies"]
    assert [(arm["norm"], arm["provider"]) for arm in company["arms"]] == [("rms_norm", "eager"), ("rms_norm", "aten")]
    for arm in company["arms"]:
        largest = arm["largest"]
        assert 8 <= largest["batch"] < arm["smallest_failed"] <= largest["batch"] * 1.5 + 1
        assert largest["peak_bytes"] <= LIMIT_BYTES
        assert largest["tokens_per_s"]["low"] < largest["tokens_per_s"]["estimate"] < largest["tokens_per_s"]["high"]
        assert [point["verdict"] for point in arm["points"]].count("out_of_memory") >= 1
    assert company["side_by_side"]["arms"].keys() == {"rms_norm:eager", "rms_norm:aten"}
    assert (out / "sweep.png").stat().st_size > 10_000
