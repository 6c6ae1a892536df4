"""Products in C++: the numbers of double precision in any layout, and where compiled code takes them."""

import ctypes
import itertools
import subprocess
import sys

import pytest
import torch
from aten_handles import handle_of, tensor_of
from torch.fx.experimental.proxy_tensor import make_fx
from torch.torch_version import TorchVersion

from maze_runtime.models.wide_products import FEWEST, wide_linear
from maze_runtime.native import products as native_products
from maze_runtime.native.dense import products_library
from maze_runtime.native.products import MOST, native_product, native_products_shims
from maze_runtime.training.compiled_products import WideProducts
from maze_runtime.training.graph_nodes import InTurn

SIZES = [
    (1, 1, 1),
    (5, 7, 3),
    (256, 64, 64),
    (64, 256, 64),
    (12, 1, 17),
    (3, 300, 16),
    (37, 129, 33),
    (13, 130, 250),
    (448, 260, 20),
]
"""Rows, inner numbers, columns: around vectors of 16, panels of 64 columns and 128 rows, tiles of 6, 8 and 12 rows; and
where what is read of a turned matrix is moved apart, 384 rows by 256 at once."""
NARROW = [(rows, 50, columns) for rows in (1, 2, 3, 4, 5, 40) for columns in (1, 2, 3, 4, 5, 40)]
"""Around the four rows or columns up to which numbers of a sum share a vector."""


@pytest.fixture(scope="module")
def multiply():
    """The function as compiled code calls it."""
    library = products_library()
    if library is None:
        pytest.skip("no compiler here")

    def call(left, right, bias):
        made = ctypes.c_void_p()
        added = None if bias is None else ctypes.byref(handle_of(bias))
        failed = library.native_product(handle_of(left), handle_of(right), added, ctypes.byref(made))
        assert not failed
        return tensor_of(made)

    return call


def layouts(n_rows, n_columns):
    """A matrix that lies in memory in several ways: with neighbours in rows, in columns, with gaps, one row for all."""
    numbers = torch.randn(2 * n_rows, 2 * n_columns, generator=torch.Generator().manual_seed(n_rows))
    yield numbers[:n_rows, :n_columns].contiguous()
    yield numbers[:n_rows, 1 : n_columns + 1]
    yield numbers[n_rows:, n_columns:].t().contiguous().t()
    yield numbers[::2, 1::2]
    yield numbers[:1, ::2].expand(n_rows, -1)


@pytest.mark.parametrize("sizes", [*SIZES, *NARROW])
def test_products_are_those_of_double_precision_in_any_layout(multiply, sizes):
    n_rows, n_inner, n_columns = sizes
    numbers = torch.randn(2 * n_columns + 1, generator=torch.Generator().manual_seed(1))
    for bias in (None, numbers[1 : n_columns + 1], numbers[: 2 * n_columns : 2], numbers[:1].expand(n_columns)):
        for left in layouts(n_rows, n_inner):
            for right in layouts(n_inner, n_columns):
                exact = left.double() @ right.double() + (0.0 if bias is None else bias.double())
                found = multiply(left, right, bias)
                assert found.shape == exact.shape
                assert found.is_contiguous()
                assert (found - exact).abs().max() <= 1e-6 * (1 + left.norm(dim=1).max() * right.norm(dim=0).max())


@pytest.mark.parametrize("sizes", [(0, 3, 2), (2, 3, 0), (0, 3, 40)])
def test_nothing_is_written_of_a_product_without_numbers(multiply, sizes):
    n_rows, n_inner, n_columns = sizes
    assert multiply(torch.ones(n_rows, n_inner), torch.ones(n_inner, n_columns), None).shape == (n_rows, n_columns)


def test_what_is_not_finite_arrives_where_it_belongs(multiply):
    left, right = torch.ones(20, 40), torch.ones(40, 70)
    left[3, 5], right[7, 66] = float("nan"), float("inf")
    found, exact = multiply(left, right, None), left @ right
    assert found[3].isnan().all()
    assert found[:3, 66].isinf().all()
    assert torch.equal(found.isfinite(), exact.isfinite())


def with_zeros(n_rows, n_columns, rows, columns):
    """A matrix of which these shares of rows and columns are zeros."""
    numbers = torch.Generator().manual_seed(n_columns)
    matrix = torch.randn(n_rows, n_columns, generator=numbers)
    matrix[torch.rand(n_rows, generator=numbers) < rows] = 0.0
    matrix[:, torch.rand(n_columns, generator=numbers) < columns] = -0.0
    return matrix


@pytest.mark.parametrize("shares", [(0.5, 0.0), (0.0, 0.3), (0.4, 0.9), (0.05, 0.02), (1.0, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("sizes", [(256, 130), (100, 128), (123, 200)])
def test_rows_and_columns_of_zeros_change_no_bit_of_a_product(multiply, sizes, shares):
    n_rows, n_columns = sizes
    left = with_zeros(n_rows, n_columns, *shares)
    right, above = torch.randn(n_columns, 150), torch.randn(n_rows, 150)
    spread = torch.randn(2 * n_columns, 262)[::2, ::2]
    turned = right[:, :131].t().contiguous().t()
    for factors in ((left, right[:, :131]), (left.t(), above[:, 1:132]), (left, turned), (left, spread)):
        for bias in (None, torch.randn(131)):
            # A product of few rows is too small to look for zeros in
            with_all = [multiply(rows, factors[1], bias) for rows in factors[0].split(19)]
            assert torch.equal(multiply(*factors, bias), torch.cat(with_all))


@pytest.mark.parametrize("share", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("of_left", [0.0, 0.5])
def test_columns_of_zeros_on_the_right_change_no_bit_either(multiply, of_left, share):
    right = with_zeros(120, 300, 0.0, share)
    left = with_zeros(150, 120, of_left, of_left)
    for factors in ((left, right), (left.t().contiguous().t(), right), (left, right[:, :131])):
        with_all = [multiply(rows, factors[1], None) for rows in factors[0].split(19)]
        assert torch.equal(multiply(*factors, None), torch.cat(with_all))


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_zeros_times_what_is_not_finite_are_not_left_out(multiply, number):
    left, right = with_zeros(256, 128, 0.5, 0.3), torch.randn(128, 128)
    right[77, 5] = number
    exact = left @ right
    assert exact[:, 5].isnan().any()
    assert torch.equal(multiply(left, right, None).isnan(), exact.isnan())
    assert torch.equal(multiply(left, right.t().contiguous().t(), None).isnan(), exact.isnan())
    left[3, 4] = number
    assert multiply(left, torch.ones(128, 128), None)[3].isfinite().sum() == 0
    above = with_zeros(128, 128, 0.0, 0.5)
    assert multiply(left, above, None)[3].isfinite().sum() == 0


def exchanged(function, *inputs, native=True, onednn=True):
    traced = make_fx(function, tracing_mode="fake")(*inputs)
    WideProducts(native=native, onednn=onednn)(traced.graph)
    traced.recompile()
    return traced


def products_of(traced):
    of_ours = sum(node.target is native_product for node in traced.graph.nodes)
    return of_ours, sum(node.target is wide_linear for node in traced.graph.nodes)


def two_layers(x, weight, bias):
    return torch.addmm(bias, x, weight.t()).tanh() @ weight


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_graphs_give_the_same_with_them(threads):
    threads(1)
    inputs = torch.randn(32, 20), torch.randn(16, 20), torch.randn(16)
    traced = exchanged(two_layers, *inputs)
    assert products_of(traced) == (2, 0)
    assert torch.allclose(traced(*inputs), two_layers(*inputs), atol=1e-5)


def test_what_threads_or_onednn_do_better_is_left_to_them(threads):
    small, large, huge = ((rows, 256, 256) for rows in (8, FEWEST >> 15, 2 * MOST >> 16))
    for n_threads, sizes, expected in ((1, large, (2, 0)), (2, small, (2, 0)), (2, large, (0, 2)), (1, huge, (0, 2))):
        threads(n_threads)
        n_rows, n_inputs, n_units = sizes
        inputs = torch.randn(n_rows, n_inputs), torch.randn(n_units, n_inputs), torch.randn(n_units)
        assert products_of(exchanged(two_layers, *inputs)) == expected, (n_threads, sizes)


def test_large_ones_are_mkls_on_several_threads_where_onednn_is_no_faster(threads):
    inputs = torch.randn(FEWEST >> 15, 256), torch.randn(256, 256), torch.randn(256)
    for n_threads, expected in ((1, (2, 0)), (2, (0, 0))):
        threads(n_threads)
        assert products_of(exchanged(two_layers, *inputs, onednn=False)) == expected


def test_other_numbers_stay_with_torch(threads):
    threads(1)
    in_double = torch.randn(32, 20).double(), torch.randn(16, 20).double(), torch.randn(16).double()
    assert products_of(exchanged(two_layers, *in_double)) == (0, 0)
    nothing = torch.randn(0, 20), torch.randn(16, 20), torch.randn(16)
    assert products_of(exchanged(two_layers, *nothing)) == (0, 0)


def test_without_a_compiler_onednn_takes_the_large_ones_alone(monkeypatch):
    monkeypatch.setattr(native_products, "products_library", lambda: None)
    assert native_products_shims.__wrapped__() == {}
    inputs = torch.randn(1024, 64), torch.randn(64, 64), torch.randn(64)
    assert products_of(exchanged(two_layers, *inputs, native=False)) == (0, 2)
    inputs = torch.randn(32, 20), torch.randn(16, 20), torch.randn(16)
    assert products_of(exchanged(two_layers, *inputs, native=False)) == (0, 0)


NAMES = """
import ctypes
from maze_runtime.native.products import native_products_shims
assert native_products_shims()
names = "native_product", "native_convolution", "aoti_torch_get_data_ptr", "XXH_versionNumber"
names = "aoti_torch_cpu_native_product", *names
print(*(name for name in names if hasattr(ctypes.CDLL(None), name)))
"""


@pytest.mark.slow
def test_nothing_but_the_function_is_found_by_name_in_the_process(multiply):
    """What torch's libraries define would stand in the place of what others mean by the same names: cuDNN crashed."""
    done = subprocess.run([sys.executable, "-c", NAMES], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["aoti_torch_cpu_native_product"]


@pytest.mark.parametrize(("release", "given"), [("2.12.1", False), ("2.13.0+cpu", True), ("2.14.0", True)])
def test_releases_that_were_not_tried_go_without(monkeypatch, release, given):
    monkeypatch.setattr(torch, "__version__", TorchVersion(release))
    if products_library() is None:
        pytest.skip("no compiler here")
    assert bool(native_products_shims.__wrapped__()) is given


def test_code_with_and_without_them_is_told_apart(threads):
    threads(1)
    names = "native", "onednn"
    options = [dict(zip(names, chosen, strict=True)) for chosen in itertools.product((False, True), repeat=2)]
    kinds = [WideProducts(**own).uuid() for own in options]
    threads(2)
    assert len({*kinds, *(WideProducts(**own).uuid() for own in options)}) == 8


def test_code_for_vectors_of_another_width_is_told_apart(monkeypatch):
    passes = InTurn([WideProducts(native=True, onednn=False)])
    found = set()
    for capability in ("AVX2", "AVX512", "AVX512"):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda own=capability: own)
        found.add(passes.uuid())
    assert len(found) == 2
