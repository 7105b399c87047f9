"""Where a name leads from inside a tree: to the tree's own module, wherever Python would look, and else to what is installed."""

from __future__ import annotations

import importlib.util
import json
import sys
from contextlib import ExitStack
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import normbench
from normbench.gate.namespace import Namespace, imports_redirected
from normbench.gate.trees import Tree

from .repositories import write


def tree_at(folder: Path, top: Path | None = None) -> Tree:
    return Tree(root=folder, top=top or folder, label=folder.name)


@pytest.fixture
def opened(tmp_path):
    """Open base and head, two folders of the test's, as namespaces; `root` is where in them specs begin."""
    with ExitStack() as stack:

        def open_namespaces(root="."):
            trees = [tree_at(tmp_path / name / root, tmp_path / name) for name in ("base", "head")]
            namespaces = [Namespace(f"_test_{tree.top.name}", tree, trees) for tree in trees]
            stack.enter_context(imports_redirected(namespaces))
            for namespace in namespaces:
                stack.callback(namespace.close)
            return namespaces

        yield open_namespaces


def seen(namespaces, name="kernels"):
    """Return the VALUE of the module of that name in each namespace."""
    return [namespace.import_module(name).VALUE for namespace in namespaces]


def write_both(folder, files):
    """Write files into both trees, with @ for the tree's name."""
    for name in ("base", "head"):
        write(folder / name, {path: text.replace("@", name) for path, text in files.items()})


@pytest.mark.parametrize(
    ("folder", "root"),
    [
        pytest.param("", ".", id="the root"),
        pytest.param("src/", ".", id="its src"),
        pytest.param("perf/", "perf", id="a root below the top"),
        pytest.param("src/", "perf", id="src of the top"),
    ],
)
def test_modules_are_found_in_root_top_and_src(tmp_path, opened, folder, root):
    write_both(tmp_path, {f"{folder}kernels.py": "VALUE = '@'", "perf/case.txt": ""})
    assert seen(opened(root)) == ["base", "head"]


def test_a_folder_on_the_path_stands_for_the_same_folder_of_each_tree(tmp_path, opened, monkeypatch):
    # As an editable install does it, or PYTHONPATH: the path names the head, and the base must not find the head's.
    write_both(tmp_path, {"python/kernels.py": "VALUE = '@'"})
    monkeypatch.syspath_prepend(str(tmp_path / "head/python"))
    assert seen(opened()) == ["base", "head"]


def test_a_folder_that_a_module_adds_to_the_path_does_too(tmp_path, opened):
    code = """
        import sys
        from pathlib import Path
        sys.path.insert(0, str(Path(__file__).parent / "inner"))
        import hidden
        VALUE = hidden.VALUE
    """
    write_both(tmp_path, {"kernels.py": code, "inner/hidden.py": "VALUE = '@'"})
    before = list(sys.path)
    namespaces = opened()
    assert seen(namespaces) == ["base", "head"]
    # By then the path names the base's folder first.
    assert seen(namespaces, "hidden") == ["base", "head"]
    assert "hidden" not in sys.modules
    assert before != sys.path, "restored when the namespaces are closed, not before"


class Finder:
    """Find a package the way editable installs do whose folder has another name than the package."""

    def __init__(self, name: str, file: Path) -> None:
        self.name, self.file = name, file

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.file, submodule_search_locations=[str(self.file.parent)])


def test_an_editable_install_that_maps_a_name_is_followed_into_each_tree(tmp_path, opened, monkeypatch):
    write_both(
        tmp_path,
        {
            "lib/__init__.py": "from mapped.inner import VALUE",
            "lib/inner.py": "VALUE = '@'",
            "kernels.py": "import mapped\nfrom mapped import inner\nVALUE = mapped.VALUE\nassert mapped.inner is inner",
        },
    )
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder("mapped", tmp_path / "head/lib/__init__.py")])
    assert seen(opened()) == ["base", "head"]


def test_a_module_that_only_the_other_tree_has_is_not_found(tmp_path, opened, monkeypatch):
    write_both(tmp_path, {"kernels.py": "try:\n    import added\n    VALUE = True\nexcept ModuleNotFoundError:\n    VALUE = False"})
    write(tmp_path / "head", {"added.py": ""})
    monkeypatch.chdir(tmp_path / "head")
    monkeypatch.syspath_prepend("")
    assert seen(opened()) == [False, True]


def test_what_is_installed_is_shared_even_where_the_tree_holds_the_environment(tmp_path, opened, monkeypatch):
    installed = tmp_path / "head/.venv/lib/python3/site-packages"
    write(installed, {"installed_library.py": ""})
    monkeypatch.syspath_prepend(str(installed))
    write_both(tmp_path, {"kernels.py": "import installed_library as VALUE"})
    base, head = seen(opened())
    assert base is head
    del sys.modules["installed_library"]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        pytest.param("json/__init__.py", "json", id="the standard library"),
        pytest.param("torch/__init__.py", "torch", id="torch, of which there can be one"),
        pytest.param("normbench/__init__.py", "normbench", id="the running normbench"),
        pytest.param("msgspec/notes.txt", "msgspec", id="an installed package, not a mere folder of its name"),
    ],
)
def test_what_there_is_one_of_is_not_taken_from_a_tree(tmp_path, opened, file, name):
    write_both(tmp_path, {file: "", "kernels.py": f"import {name} as VALUE"})
    running = importlib.import_module(name)
    assert seen(opened()) == [running, running]


def test_a_package_of_the_tree_goes_before_an_installed_one_of_its_name(tmp_path, opened):
    # A checkout of a library that is installed as well: its own code is what is gated.
    write_both(tmp_path, {"msgspec/__init__.py": "VALUE = '@'"})
    assert seen(opened(), "msgspec") == ["base", "head"]


def test_a_folder_without_init_is_a_package_where_no_other_is(tmp_path, opened):
    write_both(tmp_path, {"loose/kernels.py": "import loose.tiles\nVALUE = loose.tiles.VALUE", "loose/tiles.py": "VALUE = '@'"})
    assert seen(opened(), "loose.kernels") == ["base", "head"]


def test_a_base_inside_the_head_is_told_from_it(tmp_path, monkeypatch):
    head, base = tmp_path / "head", tmp_path / "head/old"
    for folder, value in ((head, "head"), (base, "base")):
        write(folder, {"python/kernels.py": f"VALUE = {value!r}"})
    for path in (head / "python", base / "python"):
        monkeypatch.syspath_prepend(str(path))
    trees = [tree_at(base), tree_at(head)]
    namespaces = [Namespace(f"_test_{tree.label}", tree, trees) for tree in trees]
    with imports_redirected(namespaces):
        assert seen(namespaces) == ["base", "head"]
    for namespace in namespaces:
        namespace.close()


def test_other_code_imports_as_ever(tmp_path, opened, monkeypatch):
    write_both(tmp_path, {"only_in_trees.py": "VALUE = '@'"})
    monkeypatch.chdir(tmp_path)
    opened()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("only_in_trees")
    with pytest.raises(ModuleNotFoundError):
        import only_in_trees  # noqa: F401
    assert importlib.import_module("json") is json
    assert importlib.import_module(".gate.trees", "normbench") is sys.modules["normbench.gate.trees"]
    assert normbench is sys.modules["normbench"]


def test_a_file_is_the_module_that_others_import_it_as(tmp_path, opened):
    write_both(tmp_path, {"kernels.py": "import state", "state.py": "VALUE = '@'", "my-kernels.py": "import state\nVALUE = state.VALUE"})
    base, _ = opened()
    assert base.import_file(tmp_path / "base/state.py") is base.import_module("state")
    odd = base.import_file(tmp_path / "base/my-kernels.py")
    assert odd.VALUE == "base"
    assert odd is base.import_file(tmp_path / "base/my-kernels.py"), "a second provider of a file must not run it again"
    assert odd.__name__.partition(".")[2].isidentifier()


def test_a_missing_module_is_none_and_one_that_fails_raises(tmp_path, opened):
    write_both(tmp_path, {"kernels/__init__.py": "", "kernels/broken.py": "import no_such_thing"})
    base, _ = opened()
    assert [base.import_module(name) for name in ("none", "kernels.none", "none.at.all")] == [None, None, None]
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        base.import_module("kernels.broken")
