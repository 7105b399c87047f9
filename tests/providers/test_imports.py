"""Importing other people's packages into a process that will be forked."""

import os
import sys

import pytest

from normbench.providers.imports import import_before_fork

MODULE = """
import os
seen = {name: os.environ.get(name) for name in ("PYTORCH_NVML_BASED_CUDA_CHECK", "CHOSEN", "KEPT")}
os.environ["LEFT_BEHIND"] = "1"
os.environ["KEPT"] = "changed"
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "package_that_meddles.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("KEPT", "as it was")
    yield "package_that_meddles"
    sys.modules.pop("package_that_meddles", None)


def test_the_package_sees_the_variables_and_nvml_in_place_of_the_cuda_runtime(package):
    seen = import_before_fork(package, {"CHOSEN": "torch"}).seen
    assert seen == {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "CHOSEN": "torch", "KEPT": "as it was"}


def test_the_environment_is_afterwards_as_it_was(package):
    before = dict(os.environ)
    import_before_fork(package, {"CHOSEN": "torch"})
    assert dict(os.environ) == before


def test_it_is_so_after_a_failed_import(tmp_path, monkeypatch):
    (tmp_path / "package_that_fails.py").write_text("import os; os.environ['LEFT_BEHIND'] = '1'; import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    before = dict(os.environ)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        import_before_fork("package_that_fails")
    assert dict(os.environ) == before
