"""The modules: drop-in for those of torch.nn, with a provider."""

import copy
import pickle

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import normbench
from normbench.nn import LayerNorm, RMSNorm

# What PyTorch says when it first compiles.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")

# Arguments that both take in the same way: shapes of any rank as a number, tuple or list, and what is left out.
LAYER_NORMS = [
    ((8,), {}),
    (((4, 8),), {}),
    (([4, 8], 1e-3), {}),
    ((8, 1e-5, False), {}),
    ((8, 1e-5, True, False), {}),
    ((8,), {"bias": False}),
]
RMS_NORMS = [((8,), {}), (((4, 8),), {}), (([4, 8], 1e-3), {}), ((8, None, False), {}), ((8,), {"eps": 1e-6})]
PAIRS = [(LayerNorm, torch.nn.LayerNorm, *given) for given in LAYER_NORMS] + [(RMSNorm, torch.nn.RMSNorm, *given) for given in RMS_NORMS]


def pair(mine, theirs, arguments, options, **more):
    """Return a module of each kind with the same parameters, which are not those that they begin with."""
    torch.manual_seed(0)
    reference = theirs(*arguments, **options)
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter)
    module = mine(*arguments, **options, **more)
    module.load_state_dict(reference.state_dict())
    return module, reference


def test_the_package_offers_them():
    assert normbench.nn.LayerNorm is LayerNorm
    assert normbench.nn.RMSNorm is RMSNorm


@pytest.mark.parametrize(("mine", "theirs", "arguments", "options"), PAIRS, ids=str)
@pytest.mark.parametrize("provider", [None, "eager"])
def test_outputs_and_gradients_are_those_of_pytorchs_module(mine, theirs, arguments, options, provider):
    module, reference = pair(mine, theirs, arguments, options, provider=provider)
    x = torch.randn(3, 4, 8, requires_grad=True)
    found, wanted = module(x), reference(x)
    torch.testing.assert_close(found, wanted)
    leaves = [x, *module.parameters()], [x, *reference.parameters()]
    gradients = [torch.autograd.grad(y.square().sum(), inputs) for y, inputs in zip((found, wanted), leaves, strict=True)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("mine", "theirs", "arguments", "options"), PAIRS, ids=str)
def test_parameters_go_both_ways(mine, theirs, arguments, options):
    module, reference = pair(mine, theirs, arguments, options)
    assert list(module.state_dict()) == list(reference.state_dict())
    assert [(name, value.shape) for name, value in module.named_parameters()] == [(n, v.shape) for n, v in reference.named_parameters()]
    fresh = theirs(*arguments, **options)
    fresh.load_state_dict(module.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), reference.parameters(), strict=True))


@pytest.mark.parametrize(("mine", "theirs", "arguments", "options"), PAIRS, ids=str)
def test_a_new_module_begins_as_pytorchs_does_and_again_when_reset(mine, theirs, arguments, options):
    module, reference = mine(*arguments, **options), theirs(*arguments, **options)
    assert isinstance(module, theirs)
    assert (module.normalized_shape, module.eps, module.elementwise_affine) == (
        reference.normalized_shape,
        reference.eps,
        reference.elementwise_affine,
    )
    for parameter in module.parameters():
        torch.nn.init.constant_(parameter, 7)
    module.reset_parameters()
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), reference.parameters(), strict=True))


def test_gemma_starts_at_a_factor_of_one():
    module = RMSNorm(8, convention="gemma")
    assert module.weight.tolist() == [0.0] * 8
    x = torch.randn(3, 8)
    torch.testing.assert_close(module(x), torch.nn.RMSNorm(8)(x))
    torch.nn.init.constant_(module.weight, 1)
    torch.testing.assert_close(module(x), 2 * torch.nn.RMSNorm(8)(x))
    module.reset_parameters()
    assert module.weight.tolist() == [0.0] * 8


def test_llama_rounds_before_it_multiplies():
    x, weight = torch.randn(16, 64).bfloat16(), torch.randn(64).bfloat16()
    modules = [RMSNorm(64, eps=1e-6, convention=convention, dtype=torch.bfloat16) for convention in ("torch", "llama")]
    for module in modules:
        module.load_state_dict({"weight": weight})
    plain, llama = (module(x) for module in modules)
    assert not torch.equal(plain, llama)
    torch.testing.assert_close(plain, llama)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_device_and_dtype_are_those_of_the_parameters(kind, dtype):
    module = kind(8, device="meta", dtype=dtype)
    assert {(parameter.device.type, parameter.dtype) for parameter in module.parameters()} == {("meta", dtype)}
    assert module(torch.empty(2, 8, device="meta", dtype=dtype)).shape == (2, 8)
    here = module.to_empty(device="cpu")
    here.reset_parameters()
    assert here(torch.randn(2, 8, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (LayerNorm(8), "LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True, provider=None)"),
        (
            LayerNorm((4, 8), bias=False, provider="eager"),
            "LayerNorm((4, 8), eps=1e-05, elementwise_affine=True, bias=False, provider=eager)",
        ),
        (RMSNorm(8), "RMSNorm((8,), eps=None, elementwise_affine=True, convention=torch, provider=None)"),
        (
            RMSNorm(8, 1e-6, False, convention="gemma", provider="aten"),
            "RMSNorm((8,), eps=1e-06, elementwise_affine=False, convention=gemma, provider=aten)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_print_shows_the_arguments(module, expected):
    # Whether a LayerNorm has a bias is shown by PyTorch from one version on.
    assert repr(module).replace(", bias=True", "").replace(", bias=False", "") == expected.replace(", bias=True", "").replace(
        ", bias=False", ""
    )


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("module", [LayerNorm((4, 8), 1e-3, provider="eager"), RMSNorm(8, convention="gemma", provider="eager")], ids=str)
def test_a_copy_is_the_same_module_of_its_own(module, copied):
    other, x = copied(module), torch.randn(3, 4, 8)
    assert repr(other) == repr(module)
    assert torch.equal(other(x), module(x))
    torch.nn.init.constant_(other.weight, 7)
    assert not torch.equal(other(x), module(x))


def test_a_parameter_that_was_swapped_for_one_of_another_size_is_refused():
    module = LayerNorm(8)
    module.weight = torch.nn.Parameter(torch.ones(4))
    with pytest.raises(normbench.UsageError, match=r"weight has shape \(4,\); it must be \(8,\)"):
        module(torch.randn(3, 8))


@pytest.mark.parametrize("provider", ["eager", "aten", "compile"])
@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_a_graph_without_breaks_serves_every_batch(kind, provider):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    module, reference = kind(8, eps=1e-5, provider=provider), kind(8, eps=1e-5)
    compiled, counts = torch.compile(module, fullgraph=True, backend=counter), []
    for rows in (2, 3, 5, 7):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(compiled(x), reference(x))
        counts.append(counter.frame_count)
    # The second batch shows that the size changes; from then on it is open.
    assert counts[1] == counts[2] == counts[3]


@pytest.mark.parametrize("make", [normbench.nn.LayerNorm, normbench.nn.RMSNorm])
def test_symbolic_trace_takes_a_norm_as_one_call(make):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), make(8, provider="eager"))
    traced, x = torch.fx.symbolic_trace(model), torch.randn(3, 8)
    assert [node.name for node in traced.graph.nodes if node.op == "call_function"] == ["apply"]
    torch.testing.assert_close(traced(x), model(x), rtol=0, atol=0)
