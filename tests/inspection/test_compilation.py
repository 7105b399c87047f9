"""Launches become figures: right ones, the same ones each time, and one that fails takes no other with it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import triton
from triton.backends.compiler import GPUTarget

from normbench.cases.case import Case
from normbench.inspection.capture import launches_of
from normbench.inspection.compilation import CHUNK, Job, compile_jobs
from normbench.inspection.disassembly import disassemble
from normbench.inspection.machine_code import code_of, count
from normbench.registry import Registry

from . import sample_kernels

SAMPLES = Path(sample_kernels.__file__)


def jobs(name, *capabilities, path=SAMPLES, cols=4096):
    """Return a job for each launch of a forward in bfloat16 and each compute capability."""
    launches = launches_of(Registry().resolve(f"{path}:{name}"), Case.make("rms_norm", "forward", (16, cols), "bfloat16"))
    return [Job(launch=launch, capability=capability) for launch in launches for capability in capabilities]


def compiled(wanted, workers=1):
    """Return the compiled jobs in the order they were asked for."""
    found = {}
    for part in compile_jobs(wanted, workers=workers):
        found |= part
    return [found[job.key] for job in wanted]


def assembled(job):
    """Return what Triton itself makes of a job."""
    return triton.compile(job.launch.source, target=GPUTarget("cuda", job.capability, 32), options=job.launch.options)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Compile afresh: what another test or an earlier run left on disk is not seen."""
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path / "cache"))
    return monkeypatch


def test_a_kernel_in_order_reads_and_writes_vectors():
    (found,) = compiled(jobs("sound", 90))
    figures = found.figures
    # 4096 columns on 128 threads are 32 values a thread: four vectors of eight, and as many of the weight.
    assert {one.name: (one.loads, one.stores) for one in figures.arguments} == {
        "x_ptr": ({128: 4}, {}),
        "weight_ptr": ({128: 4}, {}),
        "y_ptr": ({}, {128: 4}),
    }
    assert (figures.loads, figures.stores) == ({128: 8}, {128: 4})
    assert (figures.threads, figures.stack_bytes, figures.local_accesses, figures.atomics) == (128, 0, 0, 0)


# Each generation has encodings of its own, and only the newer two have an "a" in the name that they are disassembled by.
@pytest.mark.parametrize("capability", [80, 90, 100])
def test_spills_are_what_the_assembler_says_they_are(capability, cache, capsys):
    (job,) = jobs("spilling", capability)
    cache.setattr(triton.knobs.nvidia, "dump_ptxas_log", True)
    assembled(job)
    said = capsys.readouterr().out
    (found,) = compiled([job])
    (stack,) = re.findall(r"(\d+) bytes stack frame", said)
    (registers,) = re.findall(r"Used (\d+) registers", said)
    assert int(stack) > 0
    assert (found.figures.stack_bytes, found.figures.registers) == (int(stack), int(registers))
    assert found.figures.local_accesses > 0


def test_an_unknown_stride_costs_the_vectors_of_x_alone():
    (found,) = compiled(jobs("narrow", 90))
    loads = {one.name: one.loads for one in found.figures.arguments if one.loads}
    assert loads == {"x_ptr": {16: 32}, "weight_ptr": {128: 4}}


def test_disassembling_many_at_once_gives_what_one_at_a_time_gives():
    wanted = [job for name in ("sound", "narrow", "spilling") for job in jobs(name, 90)]
    cubins = [assembled(job).asm["cubin"] for job in wanted]
    together = disassemble([code_of(cubin) for cubin in cubins], 90)
    for cubin, instructions in zip(cubins, together, strict=True):
        path = Path(triton.knobs.cache.dir) / "one.cubin"
        path.write_bytes(cubin)
        listing = subprocess.run([triton.knobs.nvidia.cuobjdump.path, "-sass", path], capture_output=True, text=True, check=True).stdout
        alone = re.findall(r"/\*[0-9a-f]{4}\*/\s+([^;]*?)\s*;", listing)
        assert len(instructions) == len(alone)
        assert count(instructions) == count(alone)


def test_the_hash_is_the_same_each_time(cache, tmp_path):
    (first,) = compiled(jobs("sound", 90))
    cache.setattr(triton.knobs.cache, "dir", str(tmp_path / "another"))
    (second,) = compiled(jobs("sound", 90))
    assert first.figures.code_hash == second.figures.code_hash


def test_the_hash_does_not_know_where_the_source_lies(tmp_path):
    moved = tmp_path / "elsewhere" / "moved.py"
    moved.parent.mkdir()
    moved.write_text("# One line further down.\n" + SAMPLES.read_text())
    one, other = compiled(jobs("sound", 90)), compiled(jobs("sound", 90, path=moved))
    assert one[0].figures.code_hash == other[0].figures.code_hash


def test_the_hash_knows_what_the_kernel_computes(tmp_path):
    changed = tmp_path / "changed.py"
    source = SAMPLES.read_text()
    assert "tl.sum(x * x) / N + eps" in source
    changed.write_text(source.replace("tl.sum(x * x) / N + eps", "tl.sum(x * x) / N + 2.0 * eps"))
    one, other = compiled(jobs("sound", 90)), compiled(jobs("sound", 90, path=changed))
    assert one[0].figures.code_hash != other[0].figures.code_hash


def test_a_kernel_that_does_not_compile_says_why_and_takes_no_other_with_it(capfd):
    failed, sound = compiled([*jobs("impossible", 90), *jobs("sound", 90)])
    assert failed.figures is None
    assert "no block is that small" in failed.error
    assert sound.figures is not None
    assert capfd.readouterr().out == ""


def test_processes_find_what_one_process_finds():
    # More than one chunk for each of two processes, so that they share the work.
    wanted = [job for cols in (64, 128, 256, 512, 1024, 2048, 4096, 8192) for job in jobs("sound", 80, 90, cols=cols)]
    assert len(wanted) > 1 + CHUNK
    assert compiled(wanted, workers=2) == compiled(wanted, workers=1)


KILLED = """
import multiprocessing, os, signal, sys
from pathlib import Path
from normbench.inspection.compilation import compile_jobs
from tests.inspection.test_compilation import jobs

wanted = [job for cols in (64, 128, 256, 512, 1024, 2048, 4096, 8192) for job in jobs("sound", 80, 90, cols=cols)]
parts = compile_jobs(wanted, workers=2)
next(parts), next(parts)
print(*(child.pid for child in multiprocessing.active_children()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_a_killed_inspection_leaves_no_process(cache):
    environment = {**os.environ, "TRITON_CACHE_DIR": triton.knobs.cache.dir}
    root = SAMPLES.parents[2]
    # Its output ends when the last process that holds it does: left alone, the two would wait for work for ever.
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(killed.stdout.split()) == 2
