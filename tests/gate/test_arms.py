"""Two versions of the same code in one process: each arm sees its own modules, whenever it imports them."""

from __future__ import annotations

import builtins
import importlib
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from interpreter import run_interpreted

import normbench
from normbench.cases.case import Case
from normbench.cases.definition import Definition
from normbench.errors import NormbenchError, UsageError
from normbench.gate.arms import Presence, Side, SideBySide, presence
from normbench.gate.trees import checked_out, folder_tree

from .repositories import commit, write

RMS = Case.make("rms_norm", "forward", (4, 8), "float32")
LAYER = Case.make("layer_norm", "forward", (4, 8), "float32")
X = torch.ones(4, 8)


def presence_of(pair, case, device):
    return presence(base_reason=pair.base.unsupported(case, device), head_reason=pair.head.unsupported(case, device))


PROVIDERS = """
    import mypkg.tiles
    import mypkg.tiles as tiles
    from mypkg import tiles as same_tiles
    from mypkg.tiles import FACTOR
    from normbench import provider

    assert mypkg.tiles is tiles is same_tiles

    @provider("mine", norms=["rms_norm"], settings={"factor": FACTOR})
    def mine(x, weight, bias, residual, eps):
        from mypkg.lazy import scale

        return x * scale()
"""
LAZY = """
    def scale():
        import importlib

        import mypkg.tiles

        assert importlib.import_module("mypkg.tiles") is mypkg.tiles
        from .tiles import FACTOR

        return FACTOR
"""


def package(factor: int) -> dict[str, str]:
    """Return a package whose provider multiplies by a factor that it finds through absolute, relative and lazy imports."""
    return {
        "src/mypkg/__init__.py": "",
        "src/mypkg/tiles.py": f"FACTOR = {factor}\n",
        "src/mypkg/lazy.py": LAZY,
        "src/mypkg/providers.py": PROVIDERS,
    }


def file_of(name: str, value: int, **options: str) -> str:
    arguments = "".join(f", {key}={text}" for key, text in options.items())
    return f"""
from normbench import provider

@provider({name!r}, norms=["rms_norm"]{arguments})
def function(x, weight, bias, residual, eps):
    return x * {value}
"""


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch, tmp_path):
    """Stand in the head's folder, and find the process afterwards as it was."""
    (tmp_path / "head").mkdir()
    monkeypatch.chdir(tmp_path / "head")
    before = builtins.__import__, importlib.import_module, torch.library.custom_op, list(sys.path), {*sys.modules}
    yield
    added = {name for name in {*sys.modules} - before[-1] if "mypkg" in name or name.startswith("_normbench")}
    assert (builtins.__import__, importlib.import_module, torch.library.custom_op, list(sys.path), added) == (*before[:-1], set())


@pytest.fixture
def side_by_side(tmp_path):
    """Write two trees and open them side by side."""
    opened = []

    def open_trees(base, head):
        for name, files in (("base", base), ("head", head)):
            (tmp_path / name).mkdir(exist_ok=True)
            write(tmp_path / name, files)
        opened.append(SideBySide(base=folder_tree(tmp_path / "base"), head=folder_tree(tmp_path / "head")))
        return opened[0]

    yield open_trees
    for arms in opened:
        arms.close()


def values(pair, case=RMS, x=X):
    """Return what the base and the head make of the first element, in turn and twice."""
    functions = [arm.prepare(case) for arm in (pair.base, pair.head)]
    found = [[function(x, None, None, None, 1e-6).flatten()[0].item() for function in functions] for _ in range(2)]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("spec", ["mypkg.providers", "mypkg.providers:mine", "src/mypkg/providers.py", "./src/mypkg/providers.py:mine"])
def test_each_arm_sees_the_modules_of_its_own_tree(side_by_side, spec):
    pair = side_by_side(package(2), package(3)).pair(spec)
    assert values(pair) == [2, 3]
    assert (pair.base.settings(RMS), pair.head.settings(RMS)) == ({"factor": 2}, {"factor": 3})
    assert presence_of(pair, RMS, "cpu") is Presence.BOTH
    assert pair.base.origin.endswith("base/src/mypkg/providers.py:10")
    assert pair.head.origin.endswith("head/src/mypkg/providers.py:10")


def test_each_version_of_a_commit_is_its_own(tmp_path):
    repository = tmp_path / "head"
    commit(repository, package(2))
    commit(repository, package(3))
    with (
        checked_out("HEAD~1", repository=repository) as base,
        SideBySide(base=base, head=folder_tree(repository)) as arms,
    ):
        pair = arms.pair("mypkg.providers")
        assert values(pair) == [2, 3]
        assert pair.base.label == f"base ({base.label})"
        assert pair.difference().text == "the arms differ in src/mypkg/tiles.py"


def test_what_is_imported_in_a_forked_child_or_a_backward_pass_is_the_arms_own(side_by_side):
    def files(value):
        return {
            "kernels.py": """
                import torch
                from normbench import provider

                class Scale(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x.clone()

                    @staticmethod
                    def backward(ctx, dy):
                        from constants import VALUE

                        return dy * VALUE

                @provider("mine", norms=["rms_norm"])
                def mine(x, weight, bias, residual, eps):
                    return Scale.apply(x)
            """,
            "constants.py": f"VALUE = {value}\n",
        }

    pair = side_by_side(files(2), files(3)).pair("kernels.py")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        gradients = []
        for arm in (pair.base, pair.head, pair.base):
            x = X.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(arm.prepare(RMS)(x, None, None, None, 1e-6).sum(), x)
            gradients.append(int(gradient[0, 0]))
        os.write(writing, str(gradients).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        assert told.read() == "[2, 3, 2]"
    os.waitpid(child, 0)


def test_compiled_functions_read_the_globals_of_their_own_version(side_by_side):
    # Inlined functions of another module: Dynamo finds their globals by the module's name, and keeps what it found.
    def files(value):
        return {
            "kernels.py": """
                import torch
                from constants import scaled
                from normbench import provider

                @provider("mine", norms=["rms_norm"], per_case=True)
                def mine(case):
                    return torch.compile(compute, backend="eager", fullgraph=True)

                def compute(x, weight, bias, residual, eps):
                    import constants
                    from constants import VALUE

                    return scaled(x) + constants.VALUE - VALUE
            """,
            "constants.py": f"""
                VALUE = {value}

                def scaled(x):
                    return x * VALUE
            """,
        }

    assert values(side_by_side(files(2), files(3)).pair("kernels.py")) == [2, 3]


def test_operators_of_one_name_stay_two(side_by_side):
    def files(value):
        return {
            "kernels.py": f"""
                import torch
                from torch.library import custom_op, register_fake
                from normbench import provider

                @custom_op("mylib::scaled", mutates_args=())
                def scaled(x: torch.Tensor) -> torch.Tensor:
                    return x * {value}

                @register_fake("mylib::scaled")
                def _(x):
                    return torch.empty_like(x)

                torch.library.define("mylib::shifted", "(Tensor x) -> Tensor")
                torch.library.impl("mylib::shifted", "cpu", lambda x: x + {value})

                @provider("mine", norms=["rms_norm"], per_case=True)
                def mine(case):
                    return torch.compile(compute, backend="eager", fullgraph=True)

                def compute(x, weight, bias, residual, eps):
                    return scaled(x)

                @provider("by_name", norms=["rms_norm"])
                def by_name(x, weight, bias, residual, eps):
                    return torch.ops.mylib.scaled(x)
            """,
        }

    arms = side_by_side(files(2), files(3))
    assert values(arms.pair("kernels.py:mine")) == [2, 3]
    # Which of the two would be meant cannot be told, so neither is found.
    with pytest.raises(AttributeError, match="'mylib' object has no attribute 'scaled'"):
        values(arms.pair("kernels.py:by_name"))


def test_triton_kernels_of_one_name_stay_two(tmp_path):
    seen = run_interpreted("arms.py", tmp_path, "-k", "kernels_of_both_versions")
    assert seen.keys() == {"test_kernels_of_both_versions_run_their_own", "test_kernels_of_both_versions_of_normbench_run_and_compile"}


def test_two_copies_of_normbench_with_a_changed_kernel_are_two(side_by_side, tmp_path):
    running = Path(normbench.__file__).parent
    for name in ("base", "head"):
        shutil.copytree(running, tmp_path / name / "normbench", ignore=shutil.ignore_patterns("__pycache__"))
    eager = tmp_path / "head/normbench/providers/eager.py"
    eager.write_text(eager.read_text().replace("y = wide * torch.rsqrt(", "y = 2 * wide * torch.rsqrt("))
    kernel = tmp_path / "head/normbench/kernels/forward.py"
    kernel.write_text(kernel.read_text() + "\n")
    arms = side_by_side({}, {})
    pair = arms.pair("eager")
    assert values(pair) == pytest.approx([1, 2])
    assert pair.base.origin.startswith(str(tmp_path / "base/normbench/providers/eager.py"))
    assert pair.head.definition(RMS) is Definition.FORMULA
    assert pair.difference().loaded == ("normbench/providers/eager.py",)
    triton = arms.pair("triton")
    assert triton.difference().text == "the arms differ in normbench/kernels/forward.py"
    assert triton.head.unsupported(RMS, "cpu") == "its Triton kernels are only checked, not timed, without a GPU"
    assert presence_of(triton, RMS, "cuda") is Presence.BOTH
    aten = arms.pair("aten")
    assert aten.difference().loaded == ()
    assert aten.difference().text.startswith("both arms load the same code; what differs beside it is normbench/kernels/forward.py")
    assert values(arms.pair("aten", "eager")) == pytest.approx([1, 2])


def test_a_base_that_knows_no_such_provider_or_case_makes_it_new(side_by_side, tmp_path):
    running = Path(normbench.__file__).parent
    for name in ("base", "head"):
        shutil.copytree(running, tmp_path / name / "normbench", ignore=shutil.ignore_patterns("__pycache__"))
    catalogue = tmp_path / "base/normbench/catalogue.py"
    catalogue.write_text(catalogue.read_text().replace('    "guide": "guide",\n', ""))
    cases = tmp_path / "base/normbench/cases/case.py"
    cases.write_text(cases.read_text().replace('GEMMA = "gemma"', 'GEMMA = "other"'))
    arms = side_by_side({}, {})
    guide = arms.pair("guide")
    assert presence_of(guide, RMS, "cpu") is Presence.NEW
    assert "has no provider and no module 'guide'" in guide.base.unsupported(RMS, "cpu")
    gemma = Case.make("rms_norm", "forward", (4, 8), "float32", convention="gemma")
    eager = arms.pair("eager")
    assert presence_of(eager, gemma, "cpu") is Presence.NEW
    assert "does not know the case: case id" in eager.base.unsupported(gemma, "cpu")


def test_without_a_normbench_in_the_tree_built_in_providers_are_the_running_ones(side_by_side):
    pair = side_by_side({}, {"normbench/results.txt": "a folder of that name is not the package"}).pair("aten")
    assert pair.base.label == "base (the running normbench)"
    assert pair.base.origin == pair.head.origin
    assert pair.difference().text == "both arms are the same code"


def test_two_providers_of_one_tree_are_told_apart(tmp_path):
    write(tmp_path / "head", {"kernels.py": file_of("a", 2) + file_of("b", 3).replace("def function", "def other")})
    tree = folder_tree(tmp_path / "head")
    with SideBySide(base=tree, head=tree) as arms:
        pair = arms.pair("kernels.py:a", "kernels.py:b")
        assert values(pair) == [2, 3]
        assert pair.difference().text == "the arms are different providers: kernels.py:a and kernels.py:b"
        assert arms.pair("kernels.py:a").difference().is_none


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        pytest.param({}, {"kernels.py": file_of("mine", 1)}, Presence.NEW, id="a file that the base lacks"),
        pytest.param({"kernels.py": file_of("mine", 1)}, {}, Presence.MISSING, id="a file that the head lacks"),
        pytest.param({"kernels.py": file_of("mine", 1)}, {"kernels.py": file_of("new", 1)}, Presence.MISSING, id="a provider renamed"),
        pytest.param(
            {"kernels.py": file_of("mine", 1)},
            {"kernels.py": file_of("mine", 1, supports="lambda case, device: 'not on Sundays'")},
            Presence.MISSING,
            id="a case that the head takes no more",
        ),
    ],
)
def test_what_one_arm_cannot_run_is_missing_or_new(side_by_side, base, head, expected):
    pair = side_by_side(base, head).pair("kernels.py:mine")
    assert presence_of(pair, RMS, "cpu") is expected
    assert presence_of(pair, LAYER, "cpu") is Presence.NEITHER


def test_presence_follows_from_both_reasons():
    table = {(None, None): "both", (None, "x"): "missing", ("x", None): "new", ("x", "x"): "neither"}
    assert {reasons: presence(base_reason=reasons[0], head_reason=reasons[1]) for reasons in table} == table


@pytest.mark.parametrize("spec", ["kernels.py", "mypkg.providers", "mypkg", "fastest"])
def test_what_neither_tree_has_is_refused(side_by_side, spec):
    with pytest.raises(UsageError, match=r"nothing to compare: base \(.*\) has no .*; head .* has no .*; known by name are apex, aten"):
        side_by_side({}, {}).pair(spec)


@pytest.mark.parametrize(
    ("spec", "text", "message"),
    [
        pytest.param("kernels.py", "import no_such", "ModuleNotFoundError: No module named 'no_such'", id="a missing dependency"),
        pytest.param("kernels", "import no_such", "ModuleNotFoundError: No module named 'no_such'", id="of a module"),
        pytest.param("kernels.py", "import mypkg.gone", r"No module named 'mypkg\.gone'", id="a module that the tree lacks"),
        pytest.param("kernels.py", "def (", "SyntaxError: invalid syntax", id="no Python"),
        pytest.param("kernels.py", "x = 1", r"kernels.py defines 0 providers \(tag a function", id="nothing tagged"),
        pytest.param("kernels.py", file_of("a", 1) + file_of("b", 1).replace("function", "g"), "name one as kernels.py:NAME", id="two"),
        pytest.param("../base/kernels.py", "", "the file lies outside of the tree", id="a file of the other tree"),
        pytest.param("not a provider", "", "give a built-in name, a file such as", id="no spec"),
    ],
)
def test_a_provider_that_cannot_be_loaded_is_refused_with_the_side_it_is_on(side_by_side, spec, text, message):
    arms = side_by_side({}, {"kernels.py": text, "mypkg/__init__.py": ""})
    with pytest.raises(UsageError, match=rf"of head \(.*head\) cannot be loaded: .*{message}") as caught:
        arms.arm(Side.HEAD, spec)
    assert "_normbench" not in str(caught.value)


def test_a_provider_that_fails_to_say_what_it_runs_is_an_error_with_its_name(side_by_side):
    files = {"kernels.py": file_of("mine", 1, supports="lambda case, device: 1 / 0")}
    pair = side_by_side(files, files).pair("kernels.py")
    with pytest.raises(NormbenchError, match=r"kernels.py of base .* fails to say whether it runs op/rms_norm.*ZeroDivisionError"):
        presence_of(pair, RMS, "cpu")


def test_what_a_provider_overwrites_and_computes_is_known(side_by_side):
    files = {"kernels.py": file_of("mine", 1, mutates='["x"]', definition="Definition.UNROUNDED_SUM")}
    files["kernels.py"] = "from normbench.cases.definition import Definition\n" + files["kernels.py"]
    pair = side_by_side(files, files).pair("kernels.py")
    assert pair.head.mutates(RMS) == ("x",)
    assert pair.head.definition(RMS) is Definition.UNROUNDED_SUM
