"""Dense layers in C++: the numbers of torch, in the memory that the parameters have now."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.native import dense
from maze_runtime.native.dense import DenseLayer, DenseStack, can_be_native, products_library

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid, "identity": lambda x: x}


@pytest.fixture(autouse=True)
def on_such_a_processor(monkeypatch):
    monkeypatch.setattr(dense, "HAS_VECTORS", True)
    if products_library() is None:
        pytest.skip("no compiler here")


def layers_of(*sizes, bias=True):
    torch.manual_seed(0)
    return nn.ModuleList([nn.Linear(a, b, bias=bias) for a, b in itertools.pairwise(sizes)])


def stack_of(layers, activation="tanh", **options):
    assert can_be_native(activation)
    return DenseStack(
        [DenseLayer(weight=own.weight, bias=own.bias, activation=activation) for own in layers], **options
    )


@torch.no_grad()
def expected_of(layers, x, activation="tanh"):
    x = torch.from_numpy(x)
    for layer in layers:
        x = ACTIVATIONS[activation](layer(x))
    return x.numpy()


def rows(n_rows, n_inputs=5):
    return np.random.default_rng(n_rows).normal(size=(n_rows, n_inputs)).astype(np.float32)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_layers_give_what_torch_gives(activation, bias):
    layers = layers_of(5, 64, 33, 2, bias=bias)
    stack = stack_of(layers, activation)
    for n_rows in (1, 8, 13, 300):
        np.testing.assert_allclose(
            stack(rows(n_rows)), expected_of(layers, rows(n_rows), activation), atol=2e-6, rtol=1e-5
        )


def test_inputs_may_lie_in_any_way_and_stay_as_they_are():
    layers, x = layers_of(5, 16), np.asfortranarray(rows(7))
    stack, before = stack_of(layers), x.copy()
    np.testing.assert_allclose(stack(x), expected_of(layers, before), atol=2e-6)
    np.testing.assert_allclose(stack(x.astype(np.float64)[::2]), expected_of(layers, before[::2].copy()), atol=2e-6)
    assert np.array_equal(x, before)


def test_weights_are_followed_in_place_and_to_another_place():
    layers = layers_of(5, 16, 16)
    stack = stack_of(layers)
    first = stack(rows(4)).copy()
    flat = FlatParameters(layers)  # moves all parameters into one buffer
    np.testing.assert_array_equal(stack(rows(4)), first)
    flat.data.mul_(0.5)
    np.testing.assert_allclose(stack(rows(4)), expected_of(layers, rows(4)), atol=2e-6)


def test_more_sizes_than_buffers_do_no_harm():
    layers = layers_of(5, 16)
    stack = stack_of(layers)
    for n_rows in (*range(1, 25), 1):
        np.testing.assert_allclose(stack(rows(n_rows)), expected_of(layers, rows(n_rows)), atol=2e-6)


def test_no_rows_give_none():
    assert stack_of(layers_of(5, 16))(rows(0)).shape == (0, 16)


def test_what_is_not_finite_arrives():
    layers, x = layers_of(5, 64, 2), rows(4)
    x[1, 2] = np.nan
    for activation in ACTIVATIONS:
        found = stack_of(layers, activation)(x)
        assert np.isnan(found[1]).all()
        assert np.isfinite(found[[0, 2, 3]]).all()


def test_activations_may_differ_and_results_may_be_new_arrays():
    layers = layers_of(5, 16, 3)
    kinds = [
        DenseLayer(weight=own.weight, bias=own.bias, activation=kind)
        for own, kind in zip(layers, ("relu", "identity"), strict=True)
    ]
    stack = DenseStack(kinds, gives_new_arrays=True)
    first = stack(rows(4))
    with torch.no_grad():
        expected = layers[1](torch.relu(layers[0](torch.from_numpy(rows(4)))))
    assert not np.array_equal(stack(rows(4)[::-1]), first)
    np.testing.assert_allclose(first, expected, atol=2e-6)


def test_one_number_is_not_spread_over_all_inputs():
    with pytest.raises(ValueError, match="reshape"):
        stack_of(layers_of(6, 16))(rows(4, 1))


def test_trailing_dimensions_are_joined():
    layers = layers_of(6, 16)
    x = rows(4, 6)
    assert np.array_equal(stack_of(layers)(x.reshape(4, 2, 3)), stack_of(layers)(x))


@pytest.mark.parametrize("missing", ["the processor", "the compiler", "the activation"])
def test_elsewhere_torch_and_numpy_have_to_do(missing, monkeypatch):
    if missing == "the processor":
        monkeypatch.setattr(dense, "HAS_VECTORS", False)
    if missing == "the compiler":
        monkeypatch.setattr(dense, "products_library", lambda: None)
    assert not can_be_native("elu" if missing == "the activation" else "tanh")
