"""A recurrent layer as one operation: values and gradients are those of the steps written out."""

import pytest
import torch
from torch.func import grad_and_value

from maze_blocks_recurrent.layers import RecurrentLayers
from maze_blocks_recurrent.sequence_op import advance_as_one, advance_steps

N_GATES, N_STATES = {"lstm": 4, "gru": 3}, {"lstm": 2, "gru": 1}


def arguments(cell, n_steps, *, with_bias=True, n_sequences=3, n_hidden=5):
    generator = torch.Generator().manual_seed(n_steps)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    rows = N_GATES[cell] * n_hidden
    keep = (torch.rand(n_steps, n_sequences, 1, generator=generator) > 0.3).double()
    gates, state = drawn(n_steps, n_sequences, rows), drawn(n_sequences, N_STATES[cell] * n_hidden)
    return gates, state, keep, drawn(rows, n_hidden), drawn(rows) if with_bias else None


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("n_steps", [1, 2, 9])
@pytest.mark.parametrize("with_bias", [False, True])
def test_values_and_gradients_are_those_of_the_steps(cell, n_steps, with_bias):
    found = []
    for advance in (advance_steps, advance_as_one):
        given = arguments(cell, n_steps, with_bias=with_bias)
        leaves = [tensor.requires_grad_() for i, tensor in enumerate(given) if tensor is not None and i != 2]
        states = advance(*given, cell)
        weights = torch.linspace(-1.0, 2.0, states.numel(), dtype=torch.float64).view(states.shape)
        (states * weights + states**2).sum().backward()
        found.append([states.detach(), *(leaf.grad for leaf in leaves)])
    for plain, one in zip(*found, strict=True):
        torch.testing.assert_close(one, plain, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_gradient_agrees_with_differences(cell):
    gates, state, keep, weight, bias = arguments(cell, 3, n_sequences=2, n_hidden=2)
    leaves = [tensor.requires_grad_() for tensor in (gates, state, weight, bias)]
    assert torch.autograd.gradcheck(lambda g, s, w, b: advance_as_one(g, s, keep, w, b, cell), leaves)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_function_transforms_see_through_it(cell):
    """The compiled update differentiates by `torch.func`."""
    gates, state, keep, weight, bias = arguments(cell, 4)

    def loss(advance):
        return grad_and_value(lambda w: (advance(gates, state, keep, w, bias, cell) ** 2).sum())

    (plain, value), (one, same) = loss(advance_steps)(weight), loss(advance_as_one)(weight)
    torch.testing.assert_close(one, plain, atol=1e-12, rtol=1e-10)
    torch.testing.assert_close(same, value)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_layers_that_are_prepared_for_the_compiler_give_the_same(cell):
    layers = RecurrentLayers(cell, 4, 6, 2, bidirectional=False, bias=True)
    x, state = torch.randn(7, 3, 4), torch.randn(3, layers.state_size)
    begins = (torch.rand(7, 3) < 0.3).float()
    gradients = []
    for _ in range(2):
        layers.zero_grad()
        outputs, states = layers.advance(x, state, begins)
        (outputs.sum() + (states**2).sum()).backward()
        gradients.append([outputs.detach(), states.detach(), *(weight.grad.clone() for weight in layers.weights)])
        layers.prepare_for_compilation()
    for plain, one in zip(*gradients, strict=True):
        torch.testing.assert_close(one, plain, atol=1e-5, rtol=1e-4)
