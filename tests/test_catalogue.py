"""The catalogue: every provider is known without an import, and what it needs can be had by the command that is named."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import normbench
from normbench.catalogue import BUILT_IN, REQUIREMENTS, Requirement

ROOT = Path(normbench.__file__).parents[1]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_the_module_of_a_provider_is_there_and_names_it(name):
    text = (ROOT / "normbench" / "providers" / f"{BUILT_IN[name]}.py").read_text()
    assert f'@provider("{name}"' in text.replace("(\n    ", "(")


def test_only_built_in_providers_have_requirements():
    assert REQUIREMENTS.keys() <= BUILT_IN.keys()


@pytest.mark.parametrize("name", sorted(REQUIREMENTS))
def test_the_command_names_an_extra_that_exists(name):
    found = re.search(r"'normbench\[(.*)\]'", REQUIREMENTS[name].command)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    # Apex is not on PyPI, and a project there may not depend on what is not.
    assert found is None if name == "apex" else found[1] in extras


def test_what_the_extras_of_a_cpu_bring_is_what_the_tests_bring():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    light = {package for extra in ("keras", "liger", "onnxruntime", "transformers") for package in extras[extra]}
    assert light <= set(project["dependency-groups"]["test"])


@pytest.mark.parametrize(
    ("modules", "missing"),
    [
        pytest.param(("json",), None, id="all there"),
        pytest.param(("json", "no_such_module"), "needs no_such_module, not installed here: pip install it", id="one of two"),
        pytest.param(("no_such", "none"), "needs no_such and none, not installed here: pip install it", id="neither"),
    ],
)
def test_what_is_missing_is_named_with_the_remedy(modules, missing):
    assert Requirement(modules=modules, command="pip install it").missing() == missing


def test_looking_imports_nothing():
    code = "import sys; from normbench.catalogue import REQUIREMENTS as r; [one.missing() for one in r.values()]; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "triton", *(module for one in REQUIREMENTS.values() for module in one.modules)} & set(loaded)
