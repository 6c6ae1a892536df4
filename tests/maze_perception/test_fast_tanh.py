"""The tangent in NumPy and the one that is written out for compilers, beside torch's in twice the precision."""

import numpy as np
import pytest
import torch
from torch.func import grad, vmap

from maze_kernel.config.load import select
from maze_perception import fast_tanh
from maze_perception.fast_tanh import FEWEST, MOST_THREADS, tanh_, written_out

WRITTEN_OUT = 1.7
"""Units in the last place."""
IN_NUMPY = 1.5


@pytest.fixture(autouse=True)
def _numpy_is_faster(monkeypatch):
    """On every machine."""
    monkeypatch.setattr(fast_tanh, "NUMPY_IS_FASTER", True)


def many(*shape):
    generator = torch.Generator().manual_seed(3)
    return 3.0 * torch.randn(shape, generator=generator)


def everywhere():
    tiny = torch.logspace(-40, 0, 200_001)
    return torch.cat([torch.linspace(-12.0, 12.0, 1_000_001), tiny, -tiny, torch.tensor([0.0, -0.0, 1e30, -1e30])])


def errors(found, x):
    """In units in the last place of the number that would be right."""
    right = torch.tanh(x.double())
    unit = np.spacing(np.abs(right.numpy()).astype(np.float32)).astype(np.float64)
    return (found.double() - right).abs().numpy() / unit


def test_numpy_is_off_by_hardly_more_than_a_unit():
    x = everywhere()
    assert errors(tanh_(x.clone()), x).max() < IN_NUMPY
    assert tanh_(torch.full((FEWEST,), -0.0)).signbit().all()


def test_what_is_written_out_is_as_near():
    x = everywhere()
    found = written_out(x)
    assert errors(found, x).max() < WRITTEN_OUT
    assert found.abs().max() == 1.0


@pytest.mark.slow
def test_it_stays_as_near_where_products_and_sums_are_joined():
    """As updates are compiled."""
    options = {"cpp.enable_floating_point_contract_flag": "fast"}
    found = torch.compile(lambda x: written_out(x), fullgraph=True, options=options)(everywhere())
    assert errors(found, everywhere()).max() < WRITTEN_OUT
    assert found.abs().max() == 1.0


def test_nan_stays_nan_and_infinity_is_one():
    x = many(FEWEST)
    x[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    found = tanh_(x)
    assert found[0].isnan()
    assert found[1:3].tolist() == [1.0, -1.0]


@pytest.mark.parametrize("n", [FEWEST - 1, FEWEST], ids=["torch", "numpy"])
def test_the_tensor_is_written_over_and_differentiated(n):
    x = many(n).requires_grad_()
    gradient = many(n + 1)[1:]
    inner = 2.0 * x
    y = tanh_(inner)
    assert y.data_ptr() == inner.data_ptr()
    (found,) = torch.autograd.grad(y, x, gradient)
    (expected,) = torch.autograd.grad(torch.tanh(2.0 * x), x, gradient)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_second_derivatives_are_those_of_the_function():
    x = many(FEWEST).requires_grad_()

    def second(function):
        (first,) = torch.autograd.grad(function(2.0 * x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    torch.testing.assert_close(second(tanh_), second(torch.tanh), rtol=1e-4, atol=1e-5)


def test_a_tensor_that_was_needed_as_it_was_is_reported():
    x = many(FEWEST).requires_grad_()
    inner = x.exp()
    tanh_(inner)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        inner.sum().backward()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode):
    x = many(2, FEWEST)
    with mode():
        assert torch.equal(tanh_(x.clone()), torch.from_numpy(np.tanh(x.numpy())))
        assert torch.equal(tanh_(x.clone().t()), torch.from_numpy(np.tanh(x.numpy())).t())


def test_other_numbers_are_left_to_torch():
    for dtype in (torch.float64, torch.bfloat16):
        x = many(FEWEST).to(dtype)
        assert torch.equal(tanh_(x.clone()), torch.tanh(x))


def test_where_numpy_is_no_faster_all_are_left_to_torch(monkeypatch):
    monkeypatch.setattr(fast_tanh, "NUMPY_IS_FASTER", False)
    x = many(4 * FEWEST)
    assert torch.equal(tanh_(x.clone()), torch.tanh(x))


def test_many_numbers_are_left_to_the_threads_of_torch():
    x, n_threads = many(1 << 16), torch.get_num_threads()
    try:
        torch.set_num_threads(MOST_THREADS + 1)
        assert torch.equal(tanh_(x.clone()), torch.tanh(x))
        few = x[:FEWEST]
        assert torch.equal(tanh_(few.clone()), torch.from_numpy(np.tanh(few.numpy())))
        torch.set_num_threads(MOST_THREADS)
        assert torch.equal(tanh_(x.clone()), torch.from_numpy(np.tanh(x.numpy())))
    finally:
        torch.set_num_threads(n_threads)


def test_transforms_of_functions_see_through_it():
    x = many(4, FEWEST)
    torch.testing.assert_close(vmap(lambda row: tanh_(row + 0.0))(x), torch.tanh(x))
    found = grad(lambda whole: tanh_(whole + 0.0).sum())(x)
    torch.testing.assert_close(found, grad(lambda whole: torch.tanh(whole).sum())(x))


@pytest.mark.slow
def test_compiled_code_has_its_value_and_its_gradient():
    def loss(x):
        return (tanh_(2.0 * x) * torch.arange(x.numel()).reshape(x.shape)).sum() / x.numel()

    x = many(64, 64)
    compiled = torch.compile(lambda x: torch.func.grad_and_value(loss)(x), fullgraph=True)
    found, expected = compiled(x), torch.func.grad_and_value(lambda x: loss(x.double()))(x)
    torch.testing.assert_close(found[0], expected[0].float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[1], expected[1].float(), rtol=1e-5, atol=1e-5)


def test_an_exported_network_has_the_operation_by_its_name(kernel):
    options = {"use": "dense", "hidden_units": [128], "non_lin": "tanh"}
    block = kernel.catalog.build(select(kernel, "block", options), ("x",), ("y",), ((4,),))
    program = torch.export.export(block, ({"x": many(FEWEST, 4)},), strict=False)
    targets = {str(node.target) for node in program.graph.nodes}
    assert any("tanh" in target for target in targets)
    assert not any("maze" in target or "exp" in target for target in targets)
