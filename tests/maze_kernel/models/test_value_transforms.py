"""Value transforms against NumPy, their inverses, and their behaviour far from zero."""

import numpy as np
import pytest
import torch
from scipy import optimize

from maze_kernel.models.value_transforms import LinearScale, ReduceScale, TwoHotSupport

VALUES = np.concatenate([-np.geomspace(1e-6, 1e6, 60)[::-1], [0.0], np.geomspace(1e-6, 1e6, 60)])


def h(x, epsilon):
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + epsilon * x


@pytest.mark.parametrize("epsilon", [0.5, 0.01, 1e-3])
def test_reduce_scale_equals_the_formula_and_its_numeric_inverse(epsilon):
    transform, x = ReduceScale(epsilon), torch.from_numpy(VALUES)
    np.testing.assert_allclose(transform.forward(x), h(VALUES, epsilon), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(transform.inverse(transform.forward(x)), VALUES, rtol=1e-7, atol=1e-9)
    for y in (-30.0, -0.3, 0.7, 55.0):
        root = optimize.brentq(lambda x, y=y: h(x, epsilon) - y, -1e6, 1e6, xtol=1e-10)
        assert float(transform.inverse(torch.tensor(y, dtype=torch.float64))) == pytest.approx(root, abs=1e-6)


def test_reduce_scale_survives_float32():
    transform, x = ReduceScale(0.001), torch.from_numpy(VALUES).float()
    torch.testing.assert_close(transform.inverse(transform.forward(x)), x, rtol=2e-4, atol=2e-6)


def test_reduce_scale_has_finite_gradients_everywhere():
    x = torch.tensor([-1e6, -1.0, 0.0, 1.0, 1e6], requires_grad=True)
    ReduceScale().inverse(ReduceScale().forward(x)).sum().backward()
    assert bool(x.grad.isfinite().all())


def test_linear_scale():
    transform = LinearScale(scale=20.0, offset=5.0)
    x = torch.tensor([-15.0, 5.0, 45.0])
    assert transform.forward(x).tolist() == [-1.0, 0.0, 2.0]
    assert transform.inverse(transform.forward(x)).tolist() == x.tolist()


def two_hot(x, low, high, n):
    """The atoms below and above, one number at a time."""
    weights = np.zeros(n)
    place = (np.clip(x, low, high) - low) / (high - low) * (n - 1)
    below = min(int(np.floor(place)), n - 2)
    weights[below], weights[below + 1] = 1 - (place - below), place - below
    return weights


def test_two_hot_weights_equal_the_slow_version_and_keep_the_number():
    support = TwoHotSupport(-5.0, 10.0, 31)
    x = np.random.default_rng(0).uniform(-5, 10, (4, 7))
    weights = support.to_weights(torch.from_numpy(x))
    expected = np.array([[two_hot(value, -5, 10, 31) for value in row] for row in x])
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    np.testing.assert_allclose(support.to_scalar(weights), x, atol=1e-12)
    assert int((weights > 0).sum(-1).max()) <= 2


def test_numbers_outside_the_support_go_to_its_ends():
    support = TwoHotSupport(0.0, 1.0, 5)
    weights = support.to_weights(torch.tensor([-3.0, 0.0, 1.0, 9.0]))
    assert weights.argmax(-1).tolist() == [0, 0, 4, 4]
    assert weights.sum(-1).tolist() == [1.0] * 4


@pytest.mark.parametrize("make", [lambda: ReduceScale(0.0), lambda: LinearScale(0.0), lambda: TwoHotSupport(1, 1, 5)])
def test_scales_without_an_inverse_are_refused(make):
    with pytest.raises(ValueError, match="must be"):
        make()
