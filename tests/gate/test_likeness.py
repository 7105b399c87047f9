"""Which cases are the same program in both arms: by their files, and on CUDA by what their kernels become."""

from __future__ import annotations

import textwrap

import pytest

from normbench.cases.case import Case
from normbench.errors import NormbenchError
from normbench.gate import likeness, process
from normbench.gate.arms import Side, SideBySide
from normbench.gate.launched import compute_capability, work_of
from normbench.gate.likeness import Account, AccountTask, code_of, give_account
from normbench.gate.outcome import Sameness
from normbench.gate.process import Candidate
from normbench.gate.sources import Sources
from normbench.gate.trees import folder_tree

from .repositories import write

KERNEL = textwrap.dedent(
    """
    import torch
    import triton
    import triton.language as tl

    import normbench


    @triton.jit
    def scale(x, y, times, COLS: tl.constexpr):
        row = tl.program_id(0)
        offsets = row * COLS + tl.arange(0, COLS)
        {comment}
        for _ in range(times):
            tl.store(y + offsets, tl.load(x + offsets) * {factor})


    @normbench.provider("mine", norms=["rms_norm"])
    def mine(x, weight, bias, residual, eps):
        y = torch.empty_like(x)
        for _ in range({launches}):
            scale[({grid},)](x, y, {times}, COLS=x.shape[-1], num_warps={warps})
        return y{after}


    @normbench.provider("plain", norms=["rms_norm"])
    def plain(x, weight, bias, residual, eps):
        return x * weight
    """
)
AS_IT_WAS = {"comment": "# as it was", "factor": 2, "launches": 1, "grid": "x.shape[0]", "times": 3, "warps": 4, "after": ""}
CASE = Case.make("rms_norm", "forward", (4, 256), "float32")
CANDIDATE = Candidate(case=CASE, base_spec="./kernel.py:mine", head_spec="./kernel.py:mine")


@pytest.fixture
def arms_of(tmp_path):
    """Return a function that loads both arms of a provider, base as it was and head with some changes."""
    opened = []

    def load(spec="./kernel.py:mine", **changes):
        write(tmp_path / "base", {"kernel.py": KERNEL.format(**AS_IT_WAS)})
        write(tmp_path / "head", {"kernel.py": KERNEL.format(**(AS_IT_WAS | changes))})
        opened.append(SideBySide(base=folder_tree(tmp_path / "base"), head=folder_tree(tmp_path / "head")))
        return opened[-1].pair(spec)

    yield load
    for one in opened:
        one.close()


def works(pair, capability=90):
    return work_of(pair.base, CASE, capability), work_of(pair.head, CASE, capability)


def test_another_comment_gives_the_same_machine_code(arms_of):
    base, head = works(arms_of(comment="# said in another way"))
    assert base == head
    assert [kernel.grid for kernel in base.kernels] == [(4,)]
    assert base.text == "1 Triton launch with the same machine code for sm_90 and the same parameters"


# What must not pass for the same: each of these is more or other work, and most leave the machine code as it is.
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"factor": 3}, id="another number in the kernel"),
        pytest.param({"warps": 8}, id="more warps"),
        pytest.param({"grid": "2 * x.shape[0]"}, id="a larger grid"),
        pytest.param({"times": 5}, id="another number given to it"),
        pytest.param({"launches": 2}, id="two launches"),
        pytest.param({"after": " + 0.0"}, id="an operator of PyTorch's after it"),
    ],
)
def test_a_real_change_is_seen(arms_of, change):
    base, head = works(arms_of(**change))
    assert base != head


def test_a_provider_without_kernels_of_its_own_tells_nothing(arms_of):
    with pytest.raises(NormbenchError, match="launches no Triton kernel itself"):
        works(arms_of("./kernel.py:plain"))


def test_without_a_gpu_code_is_compiled_for_an_h100():
    assert compute_capability("cuda") == 90


def account(pair, monkeypatch, device):
    monkeypatch.setattr(process, "_arms", {CANDIDATE.arm(Side.BASE): pair.base, CANDIDATE.arm(Side.HEAD): pair.head})
    told = []
    give_account(AccountTask(candidate=CANDIDATE, arms=CANDIDATE.arms, device=device), told.append)
    assert [name for name, _ in told] == list(CANDIDATE.arms)
    return code_of(*(one for _, one in told))


def test_files_that_are_the_same_byte_by_byte_are_the_same_program(arms_of, monkeypatch):
    monkeypatch.setattr(likeness, "work_of", None)
    code = account(arms_of(), monkeypatch, "cpu")
    assert (code.same, code.text) == (Sameness.FILES, "both arms are the same code")


def test_on_a_cpu_files_decide_alone(arms_of, monkeypatch):
    monkeypatch.setattr(likeness, "work_of", None)
    code = account(arms_of(comment="# said in another way"), monkeypatch, "cpu")
    assert (code.same, code.text) == (None, "the arms differ in kernel.py")


def test_on_cuda_the_same_machine_code_launched_the_same_way_is_the_same_program(arms_of, monkeypatch):
    code = account(arms_of(comment="# said in another way"), monkeypatch, "cuda:0")
    assert code.same is Sameness.MACHINE_CODE
    assert code.text.startswith("the arms differ in kernel.py, but 1 Triton launch with the same machine code")


def test_on_cuda_what_cannot_be_found_out_is_not_claimed(arms_of, monkeypatch):
    code = account(arms_of("./kernel.py:plain", comment="# said in another way"), monkeypatch, "cuda:0")
    assert (code.same, code.text) == (None, "the arms differ in kernel.py")


def test_two_arms_of_which_nothing_is_known_but_their_files_are_not_the_same_by_machine_code():
    sources = [Sources(provider="mine", loaded={"a.py": digest}, files={"a.py": digest}) for digest in "12"]
    base, head = (Account(sources=one, unknown="why") for one in sources)
    assert code_of(base, head).same is None
