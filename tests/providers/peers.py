"""What the tests of providers of other people's code share: verdicts against what each says that it computes, and cases to try."""

from handmade import outputs_by
from hypothesis import strategies as st

from normbench.cases.case import Case
from normbench.oracle.check import check, describe_failure
from normbench.oracle.problem import make_problem
from normbench.registry import Registry

DTYPES = ["float32", "bfloat16", "float16"]


def failure(name, case, seed=0):
    """Return what is wrong with a provider's outputs by its own definition, or nothing."""
    problem = make_problem(case, device="cpu", seed=seed)
    definition = Registry().resolve(name).definition(case)
    return describe_failure(check(case, problem, {name: outputs_by(name, problem)}, definition)[name])


def rms(pass_="forward", shape=(4, 64), dtype="float32", **options):
    return Case.make("rms_norm", pass_, shape, dtype, **options)


def layer(pass_="forward", shape=(4, 64), dtype="float32", **options):
    return Case.make("layer_norm", pass_, shape, dtype, **options)


@st.composite
def cases(draw, *, norms=("layer_norm", "rms_norm"), passes=("forward",), weight=None, same_dtype=False, conventions=("torch",)):
    """Draw a case of 16 or 32 bits, with or without bias and residual; small, empty and of width 1 too.

    The arguments narrow it down to what a provider takes for the most part: `weight` fixes whether there is one, `same_dtype` gives it the
    dtype of x.
    """
    norm, dtype = draw(st.sampled_from(norms)), draw(st.sampled_from(DTYPES))
    has_weight = draw(st.booleans()) if weight is None else weight
    return Case.make(
        norm,
        draw(st.sampled_from(passes)),
        draw(st.sampled_from([(3, 33), (2, 3, 64), (7, 1), (0, 16), (300, 65)])),
        dtype,
        weight=has_weight,
        weight_dtype=(dtype if same_dtype else draw(st.sampled_from(DTYPES))) if has_weight else None,
        bias=draw(st.booleans()) if has_weight and norm == "layer_norm" else False,
        residual=draw(st.booleans()),
        eps=draw(st.sampled_from([1e-6, 1e-5, 0.5])),
        convention=draw(st.sampled_from(conventions)) if norm == "rms_norm" else "torch",
    )
