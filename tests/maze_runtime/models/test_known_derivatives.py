"""Functions with written derivatives: what autograd, function transforms and the compiler make of them."""

import pytest
import torch

from maze_runtime.models.known_derivatives import KnownDerivatives


class Wave(KnownDerivatives):
    @staticmethod
    def forward(x, y, scale):
        return scale * x.sin() * y, scale * x.cos() * y, scale * x.sin()


def wave(x, y):
    return Wave.apply(x, y, 2.0)[0]


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2)]


def squares(x, y):
    return wave(x, y).square().sum()


def plainly(x, y):
    return torch.autograd.grad((2.0 * x.sin() * y).square().sum(), (x, y))


def test_gradients_match_finite_differences(inputs):
    assert torch.autograd.gradcheck(wave, inputs)


def test_function_transforms_see_the_derivatives(inputs):
    x, y = (tensor.detach() for tensor in inputs)
    for gradients in (
        torch.func.grad(squares, argnums=(0, 1))(x, y),
        torch.vmap(torch.func.grad(squares, argnums=(0, 1)))(x, y),
    ):
        for own, expected in zip(gradients, plainly(*inputs), strict=True):
            torch.testing.assert_close(own, expected)
    torch.testing.assert_close(torch.vmap(wave)(x, y), wave(x, y))


@pytest.mark.slow
def test_compiled_gradients_are_the_same(inputs):
    x, y = (tensor.detach() for tensor in inputs)
    transformed = torch.compile(lambda x, y: torch.func.grad(squares, argnums=(0, 1))(x, y), fullgraph=True)(x, y)
    backward = torch.autograd.grad(torch.compile(squares, fullgraph=True)(*inputs), inputs)
    for own, other, expected in zip(transformed, backward, plainly(*inputs), strict=True):
        torch.testing.assert_close(own, expected)
        torch.testing.assert_close(other, expected)


def test_an_input_that_needs_no_gradient_gets_none(inputs):
    x, y = inputs
    (gradient,) = torch.autograd.grad(squares(x, y.detach()), x)
    torch.testing.assert_close(gradient, plainly(x, y)[0])
    value, by_x, by_y = Wave.apply(x, y, 2.0)
    assert value.requires_grad
    assert not by_x.requires_grad
    assert not by_y.requires_grad


def test_second_derivatives_are_an_error_and_not_zero(inputs):
    x, y = inputs
    (gradient,) = torch.autograd.grad(squares(x, y), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()
