"""The registry: how providers are found, and what is refused and in which words."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from normbench.cases.case import Case, Norm
from normbench.cases.definition import Definition
from normbench.catalogue import BUILT_IN, REQUIREMENTS, Requirement
from normbench.errors import UsageError
from normbench.registry import Registry, provider

RMS = Case.make("rms_norm", "forward", (4, 8), "float32")
LAYER = Case.make("layer_norm", "forward", (4, 8), "float32")

SIX_LINES = """
from normbench import provider

@provider("mine", norms=["rms_norm"])
def mine(x, weight, bias, residual, eps):
    return x
"""


def a_module(**functions):
    module = ModuleType("somewhere")
    vars(module).update(functions)
    return module


def tagged(name="mine", norms=("rms_norm",), **options):
    @provider(name, norms=norms, **options)
    def function(x, weight, bias, residual, eps):
        return x

    return function


def test_a_file_of_six_lines_makes_a_provider(tmp_path):
    path = tmp_path / "my_kernel.py"
    path.write_text(SIX_LINES)
    mine = Registry().resolve(str(path))
    assert mine.name == "mine"
    assert mine.origin == f"{path}:4"
    assert mine.prepare(RMS)(1, None, None, None, 1e-6) == 1


def test_one_of_several_providers_of_a_file_is_chosen_by_name(tmp_path):
    path = tmp_path / "two.py"
    path.write_text(SIX_LINES + SIX_LINES.replace("mine", "other"))
    assert Registry().resolve(f"{path}:other").name == "other"
    with pytest.raises(UsageError, match=r"defines 2 providers \(mine, other\); name one as .*two.py:NAME"):
        Registry().resolve(str(path))
    with pytest.raises(UsageError, match="defines mine, other, not 'third'"):
        Registry().resolve(f"{path}:third")


def test_two_providers_of_one_file_live_side_by_side(tmp_path):
    path = tmp_path / "two.py"
    path.write_text(SIX_LINES + SIX_LINES.replace("mine", "other"))
    registry = Registry()
    assert [registry.resolve(f"{path}:{name}").name for name in ("mine", "other")] == ["mine", "other"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("x = 1", "defines 0 providers .tag a function with @normbench.provider.", id="nothing tagged"),
        pytest.param("import no_such_module", "failed to import: ModuleNotFoundError: No module named 'no_such_module'", id="broken"),
    ],
)
def test_a_file_without_a_usable_provider_is_refused(tmp_path, text, message):
    path = tmp_path / "kernel.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        Registry().resolve(str(path))


def test_a_file_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match=r"provider file 'no/such/kernel.py' does not exist"):
        Registry().resolve("no/such/kernel.py")


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"provider 'fastest' is unknown; known are apex, aten, .* triton, or the path"):
        Registry().resolve("fastest")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param("x, weight, eps", r"takes \(x, weight, eps\); it must take \(x, weight, bias, residual, eps\)", id="too few"),
        pytest.param("x, w, b, r, eps", r"takes \(x, w, b, r, eps\); it must take \(x, weight, bias, residual, eps\)", id="other names"),
    ],
)
def test_a_wrong_signature_is_refused_naming_where_it_stands(tmp_path, arguments, expected):
    path = tmp_path / "kernel.py"
    path.write_text(SIX_LINES.replace("x, weight, bias, residual, eps", arguments))
    with pytest.raises(UsageError, match=rf"provider 'mine' at {path}:4 {expected}"):
        Registry().resolve(str(path))


def test_a_per_case_provider_takes_the_case():
    @provider("chosen", norms=["rms_norm"], per_case=True)
    def chosen(case):
        return lambda x, weight, bias, residual, eps: (case.cols, x)

    @provider("wrong", norms=["rms_norm"], per_case=True)
    def wrong(x, weight, bias, residual, eps):
        return x

    registry = Registry()
    registry.register_module(a_module(chosen=chosen))
    assert registry.resolve("chosen").prepare(RMS)(1, None, None, None, 1e-6) == (8, 1)
    with pytest.raises(UsageError, match=r"it must take \(case\)"):
        registry.register_module(a_module(wrong=wrong))


def test_the_same_name_and_norm_from_two_places_is_refused_naming_both():
    registry, first, second = Registry(), tagged(), tagged()
    registry.register_module(a_module(first=first))
    line = first.__code__.co_firstlineno
    with pytest.raises(UsageError, match=rf"'mine' already has rms_norm: defined at {__file__}:{line} and again at {__file__}:{line}"):
        registry.register_module(a_module(second=second))


def test_one_name_may_have_a_function_for_each_norm():
    registry = Registry()
    assert registry.register_module(a_module(a=tagged(), b=tagged(norms=["layer_norm"]))) == ["mine"]


def test_one_function_may_be_seen_twice():
    registry, function = Registry(), tagged()
    module = a_module(function=function, alias=function)
    assert registry.register_module(module) == ["mine"]
    assert registry.register_module(module) == ["mine"]


def test_an_input_that_cannot_be_mutated_is_refused():
    with pytest.raises(UsageError, match=r"mutates=\['weight'\] is not among x, residual"):
        Registry().register_module(a_module(f=tagged(mutates=["weight"])))


def test_a_norm_that_does_not_exist_is_refused_where_it_is_tagged():
    with pytest.raises(ValueError, match="group_norm"):
        provider("mine", norms=["group_norm"])(lambda x, weight, bias, residual, eps: x)


def test_a_provider_says_what_it_cannot_run(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(SIX_LINES.replace('norms=["rms_norm"]', 'norms=["rms_norm"], supports=lambda case, device: f"not on {device}"'))
    mine = Registry().resolve(str(path))
    assert mine.unsupported(RMS, "cuda") == "not on cuda"
    assert mine.unsupported(LAYER, "cpu") == "mine has no layer_norm"


@pytest.mark.parametrize("settings", [{"tile": 8}, lambda case: {"tile": case.cols}], ids=["fixed", "by case"])
def test_settings_come_with_the_case(tmp_path, settings):
    registry = Registry()
    registry.register_module(a_module(f=tagged(name="aten", settings=settings)))
    assert registry.resolve("aten").settings(RMS) == {"tile": 8}


def test_names_are_known_without_importing_a_provider():
    assert set(BUILT_IN) <= set(Registry.names())


def test_an_installed_provider_of_a_built_in_name_is_refused_naming_both(monkeypatch):
    entry = SimpleNamespace(name="aten", value="other_package.norms")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
    with pytest.raises(
        UsageError, match=r"'aten' is defined twice: by normbench.providers.aten and by the entry point other_package.norms"
    ):
        Registry.names()


def test_an_installed_provider_is_found_by_name(monkeypatch):
    entry = SimpleNamespace(name="installed", value="other_package_norms:anything")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
    monkeypatch.setitem(sys.modules, "other_package_norms", a_module(f=tagged(name="installed")))
    assert Registry().resolve("installed").name == "installed"


# What Hugging Face and the guides call a norm of their own is RMSNorm; for LayerNorm they use PyTorch's.
RMS_ONLY = {"guide", "transformers", "transformers_t5"}


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_built_in_provider_has_its_norms(name):
    if missing := Registry.missing(name):
        pytest.skip(missing)
    both = {Norm.LAYER_NORM, Norm.RMS_NORM}
    assert set(Registry().resolve(name).implementations) == ({Norm.RMS_NORM} if name in RMS_ONLY else both)


def test_a_provider_whose_package_is_not_installed_is_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(REQUIREMENTS, "liger", Requirement(modules=("no_such_module",), command="pip install 'normbench[liger]'"))
    with pytest.raises(UsageError) as refusal:
        Registry().resolve("liger")
    assert str(refusal.value) == "provider 'liger' needs no_such_module, not installed here: pip install 'normbench[liger]'"


def test_nothing_is_missing_for_what_needs_nothing():
    assert Registry.missing("aten") is None
    assert Registry.missing("a provider of somebody's own") is None


def test_a_provider_computes_the_formula_unless_it_says_otherwise():
    registry = Registry()
    registry.register_module(a_module(own=tagged(definition=Definition.EPS_OUTSIDE_ROOT)))
    registry.register_module(a_module(other=tagged(name="aten")))
    assert registry.resolve("mine").definition(RMS) is Definition.EPS_OUTSIDE_ROOT
    assert registry.resolve("aten").definition(RMS) is Definition.FORMULA


def test_a_definition_may_depend_on_the_case():
    wide = Case.make("rms_norm", "forward", (4, 8), "float64")
    by_case = tagged(name="aten", definition=lambda case: Definition.FORMULA if case == wide else Definition.UNROUNDED_SUM)
    registry = Registry()
    registry.register_module(a_module(f=by_case))
    assert [registry.resolve("aten").definition(case) for case in (wide, RMS)] == [Definition.FORMULA, Definition.UNROUNDED_SUM]
