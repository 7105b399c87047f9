"""Tensors as rows: which of them are read where they lie, and which are copied."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normbench.errors import NormbenchError
from normbench.kernels.rows import INTERPRETED_MULTIPROCESSORS, MAX_ALIGNMENT, MAX_COLS, Rows, alignment, multiprocessors, working_dtype


def memory(*shape):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).view(shape)


# count and stride of the rows that a kernel reads without a copy.
@pytest.mark.parametrize(
    ("tensor", "count", "stride"),
    [
        pytest.param(memory(7), 1, 7, id="a vector"),
        pytest.param(memory(3, 7), 3, 7, id="contiguous"),
        pytest.param(memory(2, 3, 7), 6, 7, id="three dimensions"),
        pytest.param(memory(3, 20)[:, 5:12], 3, 20, id="cut out of wider rows"),
        pytest.param(memory(2, 3, 20)[..., 5:12], 6, 20, id="cut out of wider rows, three dimensions"),
        pytest.param(memory(6, 7)[::2], 3, 14, id="every second row"),
        pytest.param(memory(7).expand(3, 7), 3, 0, id="one row again and again"),
        pytest.param(memory(4, 3, 7)[:, :1], 4, 21, id="a dimension of one"),
        pytest.param(memory(3, 8)[:, 3:4], 3, 8, id="a column, whose stride nobody takes"),
        pytest.param(memory(9).unfold(0, 3, 2), 4, 2, id="rows that overlap"),
    ],
)
def test_rows_of_contiguous_elements_are_read_where_they_lie(tensor, count, stride):
    rows = Rows.of(tensor)
    assert (rows.count, rows.cols, rows.stride) == (count, tensor.shape[-1], stride)
    assert rows.tensor.data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(memory(7, 3).T, id="transposed"),
        pytest.param(memory(3, 14)[:, ::2], id="every second column"),
        pytest.param(memory(1)[0].expand(3, 7), id="one value everywhere"),
        pytest.param(memory(2, 3, 4, 7).transpose(1, 2), id="heads: rows of no common distance"),
    ],
)
def test_other_tensors_are_copied(tensor):
    rows = Rows.of(tensor)
    assert rows.tensor.data_ptr() != tensor.data_ptr()
    assert rows.stride == rows.cols
    assert torch.equal(rows.tensor, tensor.reshape(-1, tensor.shape[-1]))


def test_a_single_row_has_the_stride_of_a_contiguous_one():
    # 17 would spoil the alignment of 16 columns, and nothing is ever 17 away.
    assert Rows.of(memory(5, 17)[:1, :16]).stride == 16


@pytest.mark.parametrize(("shape", "count"), [((0, 1024), 0), ((1, 0, 10), 0), ((1, 0), 1), ((0,), 1)], ids=str)
def test_a_tensor_of_nothing_has_its_rows_counted(shape, count):
    rows = Rows.of(torch.empty(shape))
    assert (rows.count, rows.cols) == (count, shape[-1])


@given(data=st.data())
def test_an_element_is_where_its_row_and_stride_say(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = data.draw(st.permutations(range(len(sizes))))
    view = memory(*(2 * size + 1 for size in sizes)).permute(order)
    tensor = view[tuple(slice(data.draw(st.integers(0, 1)), None, data.draw(st.integers(1, 2))) for _ in sizes)]
    rows = Rows.of(tensor)
    read = torch.as_strided(rows.tensor, (rows.count, rows.cols), (rows.stride, 1))
    assert torch.equal(read, tensor.reshape(-1, tensor.shape[-1]))


@given(sizes=st.lists(st.integers(0, 2**40), min_size=1, max_size=4))
def test_alignment_is_the_largest_power_of_two_that_divides_all(sizes):
    found = alignment(*sizes)
    assert all(size % found == 0 for size in sizes)
    assert found == MAX_ALIGNMENT or any(size % (2 * found) for size in sizes)


@pytest.mark.parametrize(("sizes", "expected"), [((0,), 16), ((4096, 0), 16), ((5120, 24), 8), ((7,), 1), ((48, 4), 4)])
def test_alignment_of(sizes, expected):
    assert alignment(*sizes) == expected


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float64", "float64"), ("float32", "float32"), ("bfloat16", "float32"), ("float16", "float32")],
)
def test_sixteen_bits_are_computed_in_float32(dtype, expected):
    torch_dtype, triton_dtype = working_dtype(getattr(torch, dtype))
    assert torch_dtype == getattr(torch, expected)
    assert triton_dtype.primitive_bitwidth == torch_dtype.itemsize * 8


def test_a_processor_stands_for_few_multiprocessors():
    assert multiprocessors(torch.device("cpu")) == INTERPRETED_MULTIPROCESSORS


@pytest.mark.parametrize("cols", [MAX_COLS + 1, 2**31 - 1, 2**31, 2**31 + 16])
def test_a_row_whose_columns_32_bits_cannot_count_is_refused(cols):
    with pytest.raises(NormbenchError, match=rf"rows of {cols} elements .* the limit is 2147475456; use another provider"):
        Rows.of(torch.empty(2, cols, device="meta"))
    assert Rows.of(torch.empty(2, MAX_COLS, device="meta")).cols == MAX_COLS
