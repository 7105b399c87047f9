"""The named grids and their expansion into cases."""

import subprocess
import sys

import pytest

from normbench.cases.case import DType, Norm, Pass
from normbench.cases.grids import GRIDS, NORM_LABELS, expand, grid
from normbench.errors import UsageError


def shapes_of(name):
    return [entry.shape for entry in grid(name).shapes]


def test_the_known_grids():
    assert list(GRIDS) == ["seed", "quick", "quack", "decode", "training", "odd", "qk", "edges"]


@pytest.mark.parametrize("name", GRIDS)
def test_every_shape_has_a_reason_and_is_there_once(name):
    found = grid(name)
    assert found.name == name
    assert found.summary
    assert all(entry.why for entry in found.shapes)
    assert len(set(shapes_of(name))) == len(found.shapes)


def test_seed():
    assert shapes_of("seed") == [(4, 128, 512), (8, 256, 1024), (16, 512, 2048), (32, 1024, 4096)]


def test_quick_is_small_and_has_a_width_that_is_no_power_of_two():
    cases = expand(grid("quick"))
    assert max(case.numel * 4 for case in cases) <= 2**20
    assert any(case.cols & (case.cols - 1) for case in cases)


def test_quack_is_the_published_list():
    assert shapes_of("quack")[0] == (32768, 256)
    assert shapes_of("quack")[-3:] == [(32768, 65536), (16384, 131072), (8192, 262144)]
    assert len(shapes_of("quack")) == 11


def test_decode_has_every_batch_at_every_width():
    assert len(shapes_of("decode")) == 9 * 5
    assert {shape[0] for shape in shapes_of("decode")} == {1, 2, 4, 8, 16, 32, 64, 128, 256}


def test_odd_has_the_widths_of_helion_and_flashinfer():
    assert {48, 127, 1023, 2047, 36864, 111, 500} <= {shape[-1] for shape in shapes_of("odd")}


def test_qk_runs_over_heads():
    assert {shape[-1] for shape in shapes_of("qk")} == {64, 96, 128, 256}
    assert all(len(shape) == 4 for shape in shapes_of("qk"))


def test_edges_are_small_and_hold_what_breaks_kernels():
    assert max(case.numel for case in expand(grid("edges"))) <= 2**17
    widths = [shape[-1] for shape in shapes_of("edges")]
    assert {1, 0, 127, 16385, 32769, 72704} <= set(widths)
    assert {len(shape) for shape in shapes_of("edges")} == {1, 2, 3, 4}
    assert sum(case.is_empty for case in expand(grid("edges"), norms=["rms_norm"], passes=["forward"])) == 3


def test_the_module_imports_no_torch():
    code = "import sys, normbench.cases.grids, normbench.cases.traffic; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_shapes_in_the_name():
    assert shapes_of("4x128x512,8x1024") == [(4, 128, 512), (8, 1024)]


def test_spaces_and_repetition_do_not_matter():
    assert shapes_of("8x1024, 512, 8x1024") == [(8, 1024), (512,)]


def test_an_empty_shape_is_a_shape():
    assert shapes_of("0x512") == [(0, 512)]


@pytest.mark.parametrize("name", ["4x", "8x1024,", "8x-1", "4xx5", "8x1024;4", "12.5", "8x\u0661", f"8x{'9' * 5000}"])
def test_what_is_no_shape_is_refused(name):
    with pytest.raises(UsageError, match="is not a shape such as"):
        grid(name)


@pytest.mark.parametrize("name", ["nope", "", "Seed"])
def test_an_unknown_name_lists_the_known(name):
    with pytest.raises(UsageError, match="known are seed, quick, quack, decode, training, odd, qk"):
        grid(name)


def test_defaults():
    assert [case.id for case in expand(grid("8x64"))] == [
        "op/layer_norm/forward/8x64/float32",
        "op/rms_norm/forward/8x64/float32",
        "op/layer_norm/forward_backward/8x64/float32",
        "op/rms_norm/forward_backward/8x64/float32",
    ]


def test_order_is_shape_dtype_pass_norm():
    cases = expand(grid("8x64,4x32"), norms=["rms_norm", "add_rms_norm"], passes=["backward"], dtypes=["bfloat16", "float16"])
    assert [case.id for case in cases] == [
        "op/rms_norm/backward/8x64/bfloat16",
        "op/add_rms_norm/backward/8x64/bfloat16",
        "op/rms_norm/backward/8x64/float16",
        "op/add_rms_norm/backward/8x64/float16",
        "op/rms_norm/backward/4x32/bfloat16",
        "op/add_rms_norm/backward/4x32/bfloat16",
        "op/rms_norm/backward/4x32/float16",
        "op/add_rms_norm/backward/4x32/float16",
    ]


def test_labels():
    assert NORM_LABELS == {
        "layer_norm": (Norm.LAYER_NORM, False),
        "rms_norm": (Norm.RMS_NORM, False),
        "add_layer_norm": (Norm.LAYER_NORM, True),
        "add_rms_norm": (Norm.RMS_NORM, True),
    }


def test_options_reach_the_case():
    (case,) = expand(
        grid("8x64"),
        norms=["rms_norm"],
        passes=[Pass.FORWARD],
        dtypes=[DType.BFLOAT16],
        weight_dtype="float32",
        eps=1e-5,
        convention="gemma",
    )
    assert case.id == "op/rms_norm/forward/8x64/bfloat16/w-float32/eps-1e-05/gemma"


def test_what_is_given_twice_counts_once():
    cases = expand(grid("8x64"), norms=["rms_norm", "rms_norm"], passes=["forward", Pass.FORWARD], dtypes=["float32"])
    assert len(cases) == 1


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"norms": ["batch_norm"]}, "norm 'batch_norm' is unknown; known are layer_norm, rms_norm, add_layer_norm, add_rms_norm"),
        ({"passes": ["sideways"]}, "pass 'sideways' is unknown; known are forward, backward, forward_backward"),
        ({"dtypes": ["int8"]}, "dtype 'int8' is unknown; known are float64, float32, bfloat16, float16"),
        ({"weight_dtype": "int8"}, "weight dtype 'int8' is unknown"),
        ({"convention": "gemma"}, "convention 'gemma' is defined for rms_norm only"),
    ],
)
def test_unknown_values_are_refused(argument, message):
    with pytest.raises(UsageError, match=message):
        expand(grid("8x64"), **argument)


@pytest.mark.parametrize("name", GRIDS)
def test_ids_are_unique(name):
    ids = [case.id for case in expand(grid(name), norms=NORM_LABELS, passes=Pass, dtypes=DType)]
    assert len(set(ids)) == len(ids)
