"""When both arms are the same code, and what differs where they are not."""

from __future__ import annotations

from types import ModuleType

import pytest

from normbench.gate.sources import Difference, Sources, imported_from, loaded_sources

from .repositories import write


def sources(provider="mine", loaded=(), other=()):
    """Return sources from (path, digest) pairs."""
    return Sources(provider=provider, loaded=dict(loaded), files=dict([*loaded, *other]))


BASE = sources(loaded=[("a.py", "1"), ("b.py", "1")], other=[("c.py", "1")])


@pytest.mark.parametrize(
    ("head", "text"),
    [
        pytest.param(BASE, "both arms are the same code", id="nothing"),
        pytest.param(
            sources(loaded=[("a.py", "2"), ("b.py", "1")], other=[("c.py", "2")]), "the arms differ in a.py", id="a file that is loaded"
        ),
        pytest.param(
            sources(loaded=[("a.py", "1"), ("b.py", "1")], other=[("c.py", "2")]),
            "both arms load the same code; what differs beside it is c.py",
            id="one that is not",
        ),
        pytest.param(sources(loaded=[("a.py", "1")], other=[("c.py", "1")]), "the arms differ in b.py", id="a file that is gone"),
        pytest.param(sources(loaded=[("a.py", "1"), ("b.py", "1"), ("c.py", "2")]), "the arms differ in c.py", id="loaded by one arm only"),
        pytest.param(
            sources("other", loaded=[("a.py", "1")]), "the arms are different providers: mine and other", id="another provider altogether"
        ),
        pytest.param(
            sources(loaded=[("a.py", "1"), ("b.py", "1"), *((f"{i}.py", "1") for i in range(6))], other=[("c.py", "1")]),
            "the arms differ in 0.py, 1.py, 2.py, 3.py and 2 more",
            id="more than anybody reads",
        ),
    ],
)
def test_a_difference_is_told_in_a_clause(head, text):
    difference = Difference.between(BASE, head)
    assert difference.text == text
    assert difference.is_none == (text == "both arms are the same code")


def module(file=None, path=None):
    made = ModuleType("m")
    made.__file__ = None if file is None else str(file)
    if path is not None:
        made.__path__ = [str(path)]
    return made


def test_files_of_a_package_count_and_those_that_lie_beside_a_module(tmp_path):
    write(
        tmp_path,
        {
            "pkg/__init__.py": "",
            "pkg/lazy.py": "",
            "pkg/csrc/norm.cu": "",
            "pkg/__pycache__/lazy.pyc": "",
            "kernel.py": "",
            "norm.cu": "",
            "README.md": "",
        },
    )
    modules = {"pkg": module(tmp_path / "pkg/__init__.py", tmp_path / "pkg"), "kernel": module(tmp_path / "kernel.py"), "c": module()}
    found = loaded_sources("mine", modules, tmp_path)
    assert sorted(found.loaded) == ["kernel.py", "pkg/__init__.py"]
    assert sorted(found.files) == ["kernel.py", "norm.cu", "pkg/__init__.py", "pkg/csrc/norm.cu", "pkg/lazy.py"]


def test_what_lies_outside_of_the_tree_is_shared(tmp_path):
    write(tmp_path, {"tree/kernel.py": "", "elsewhere/library.py": ""})
    modules = {"kernel": module(tmp_path / "tree/kernel.py"), "library": module(tmp_path / "elsewhere/library.py")}
    assert sorted(loaded_sources("mine", modules, tmp_path / "tree").files) == ["kernel.py"]


def test_a_provider_is_told_from_others_that_are_loaded_as_well(tmp_path):
    write(
        tmp_path,
        {
            "pkg/__init__.py": "",
            "pkg/one.py": "from . import shared\n",
            "pkg/two.py": "from .shared import x\n",
            "pkg/shared.py": "def f():\n    from .deep.inner import y\n",
            "pkg/deep/__init__.py": "",
            "pkg/deep/inner.py": "from ..one import z\n",
        },
    )
    names = ("pkg.one", "pkg.two", "pkg.shared", "pkg.deep.inner")
    modules = {name: module(tmp_path / f"{name.replace('.', '/')}.py") for name in names}
    modules |= {name: module(tmp_path / name.replace(".", "/") / "__init__.py", tmp_path) for name in ("pkg", "pkg.deep")}
    assert modules.keys() - imported_from(["pkg.one"], modules).keys() == {"pkg.two"}
    assert imported_from(["pkg.gone"], modules) == {}
