"""Means by weight against means of what is left, and the explained variance with and without weights."""

import numpy as np
import pytest
import torch

from maze_runtime.training.weighted import explained_variance, weighted_mean


def tensor(array):
    return torch.tensor(array, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(17,), (6, 3)])
def test_a_mean_by_weight_is_the_mean_of_what_has_any_over_the_dimensions_of_the_weight(shape):
    values = np.random.default_rng(0).normal(size=(4, *shape))
    kept = np.arange(np.prod(shape)).reshape(shape) % 3 != 0
    weight = tensor(kept.astype(float))
    np.testing.assert_allclose(weighted_mean(tensor(values), weight), values[:, kept].mean(1), rtol=1e-12)
    assert float(weighted_mean(tensor(values[0]), weight)) == pytest.approx(values[0][kept].mean(), rel=1e-12)
    half = weighted_mean(tensor(values), 0.5 * weight)
    np.testing.assert_allclose(half, values[:, kept].mean(1), rtol=1e-12)


def test_a_mean_of_nothing_is_0_and_one_without_weights_counts_all():
    values = tensor(np.arange(6.0).reshape(2, 3))
    assert weighted_mean(values, torch.zeros(3)).tolist() == [0.0, 0.0]
    assert weighted_mean(values, None).tolist() == [1.0, 4.0]


@pytest.mark.parametrize("scale", [1e-12, 1e-5, 1.0, 1e5])
def test_explained_variance_by_weight_is_that_of_the_rows_that_have_any(scale):
    rng = np.random.default_rng(1)
    value, targets = scale * rng.normal(size=(6, 3)), scale * rng.normal(size=(6, 3))
    kept = np.arange(18).reshape(6, 3) % 5 != 0
    weight = tensor(kept.astype(float)).float()
    expected = 1 - (targets - value)[kept].var() / targets[kept].var()
    columns = tensor(value).float(), tensor(targets).float()
    assert float(explained_variance(*columns, weight)) == pytest.approx(expected, abs=1e-4)
    assert float(explained_variance(torch.zeros(6, 3), columns[1], weight)) == pytest.approx(0, abs=1e-4)
    assert float(explained_variance(columns[0], scale * torch.ones(6, 3), weight)) == 0.0
    assert float(explained_variance(columns[0], torch.zeros(6, 3), weight)) == 0.0


def test_explained_variance_limits():
    returns = torch.tensor([1.0, 2.0, 4.0])
    assert float(explained_variance(returns, returns)) == pytest.approx(1.0)
    assert float(explained_variance(torch.zeros(3), returns)) == pytest.approx(0.0)
    assert float(explained_variance(torch.zeros(3), torch.ones(3))) == 0.0
    assert float(explained_variance(torch.arange(3.0), torch.zeros(3))) == 0.0


@pytest.mark.parametrize("scale", [1e-12, 1e-5, 1.0, 1e5])
@pytest.mark.parametrize("centre", [0.0, 50.0])
def test_explained_variance_does_not_depend_on_the_unit_of_rewards(scale, centre):
    rng = np.random.default_rng(2)
    returns = rng.normal(centre, 1.0, 500) * scale
    for value in (np.zeros(500), 0.5 * returns, returns + 0.1 * scale * rng.normal(size=500)):
        expected = 1.0 - (returns - value).var() / returns.var()
        found = explained_variance(tensor(value).float(), tensor(returns).float())
        assert float(found) == pytest.approx(expected, abs=1e-3)


def test_returns_that_vary_by_rounding_alone_are_not_explained():
    returns = torch.full((1000,), 123.4) + 1e-5 * torch.rand(1000, generator=torch.Generator().manual_seed(0))
    assert float(explained_variance(torch.zeros(1000), returns)) == 0.0
