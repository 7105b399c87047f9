"""The examples do what they say, by the commands that they name."""

import json
from pathlib import Path

MY_KERNEL = Path(__file__).parent.parent / "examples" / "my_kernel.py"
CASE = "op/rms_norm/forward/4x64/bfloat16"


def test_a_kernel_of_ones_own_is_checked_strided_and_adversarial(normbench):
    done = normbench("check", "--provider", MY_KERNEL, "--case", CASE, "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    # What float32 cannot hold the squares of is shown and not judged.
    judged = [one for one in json.loads(done.stdout)["verdicts"] if one["values"] != "overflow"]
    assert len(judged) > 5
    assert {one["status"] for one in judged} == {"ok"}


def test_a_kernel_of_ones_own_is_in_a_run_beside_another(normbench, tmp_path):
    done = normbench("run", "--provider", f"aten,{MY_KERNEL}", "--case", CASE, "--budget", "0.2", "--threads", "1", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # Without a GPU it is checked in Triton's interpreter and not timed.
    assert found["statuses"] == {"ok": 3, "skipped": 1}, "aten and the two controls, and the kernel"
    assert "my_kernel" in (tmp_path / found["report"]).read_text()


def test_a_kernel_of_ones_own_is_inspected(normbench):
    options = ["--arch", "sm_90", "--pass", "forward", "--norm", "rms_norm", "--dtype", "bfloat16", "--cols", "4096"]
    done = normbench("inspect", "--provider", MY_KERNEL, *options, "--json")
    assert done.returncode == 0, done.stderr
    (variant,) = json.loads(done.stdout)["variants"]
    assert (variant["kernel"], variant["figures"]["stack_bytes"]) == ("my_kernel", 0)
