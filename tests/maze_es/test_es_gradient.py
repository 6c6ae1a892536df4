"""Ranks, gradient and optimisers against slow or independent versions."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import rankdata

from maze_es.losses import centered_ranks, gradient, pair_weights
from maze_es.optimizers import make_optimizer
from maze_es.options import AdamOptions, SGDOptions, TorchOptimizerOptions
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.errors import MazeError, RequestError
from maze_runtime.training.state_tree import flatten_state, unflatten_state


def slow_ranks(returns):
    """Mean position among all orders of the sorted values, by counting."""
    flat = returns.reshape(-1)
    ranks = [np.sum(flat < x) + (np.sum(flat == x) - 1) / 2.0 for x in flat]
    return (np.array(ranks) / (len(flat) - 1) - 0.5).reshape(returns.shape)


@pytest.mark.parametrize("seed", range(5))
def test_ranks_equal_a_count_of_the_smaller_ones(seed):
    returns = np.random.default_rng(seed).integers(0, 6, size=(2, 9)).astype(float)
    np.testing.assert_allclose(centered_ranks(returns), slow_ranks(returns))
    np.testing.assert_allclose(centered_ranks(returns).reshape(-1), (rankdata(returns) - 1.0) / 17.0 - 0.5)


def test_ranks_span_half_to_half_and_sum_to_zero():
    ranks = centered_ranks(np.random.default_rng(0).normal(size=(2, 20)))
    assert (ranks.min(), ranks.max()) == (-0.5, 0.5)
    assert ranks.sum() == pytest.approx(0.0)


def test_equal_returns_give_no_gradient():
    noise = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    weights = pair_weights(centered_ranks(np.full((2, 5), 500.0)))
    assert not gradient(weights, noise, 0.1).any()


def quadratic(theta):
    """F(θ) = −½ θᵀ A θ + bᵀθ + c for each row."""
    a = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 3.0]])
    b = np.array([1.0, -2.0, 0.5])
    return -0.5 * np.einsum("ni,ij,nj->n", theta, a, theta) + theta @ b + 7.0


def finite_differences(theta, step=1e-5):
    return np.array(
        [(quadratic((theta + d)[None]) - quadratic((theta - d)[None]))[0] / (2 * step) for d in step * np.eye(3)]
    )


@pytest.mark.parametrize("stddev", [0.01, 1.0])
def test_the_estimate_converges_to_the_gradient_of_a_quadratic(stddev):
    """The antithetic estimator has no bias on a quadratic, however wide the perturbations."""
    theta = np.array([0.3, -0.7, 1.1])
    noise = np.random.default_rng(1).normal(size=(400_000, 3))
    fitness = np.stack([quadratic(theta + stddev * noise), quadratic(theta - stddev * noise)])
    estimate = gradient(pair_weights(fitness), noise, stddev)
    np.testing.assert_allclose(estimate, finite_differences(theta), atol=0.03)


def test_orthogonal_noise_gives_the_gradient_exactly():
    """M = P perturbations along the axes, scaled to unit covariance: the estimate is the central difference."""
    theta = np.array([0.3, -0.7, 1.1])
    noise = np.sqrt(3.0) * np.eye(3)
    fitness = np.stack([quadratic(theta + 0.2 * noise), quadratic(theta - 0.2 * noise)])
    np.testing.assert_allclose(gradient(pair_weights(fitness), noise, 0.2), finite_differences(theta), rtol=1e-6)


def test_adam_equals_torch():
    rng, options = np.random.default_rng(0), AdamOptions(beta1=0.8, beta2=0.95)
    ours, weights = make_optimizer(4, options), np.ones(4, np.float32)
    parameter = torch.nn.Parameter(torch.ones(4))
    theirs = torch.optim.Adam([parameter], lr=0.03, betas=(0.8, 0.95), eps=1e-8)
    for _ in range(20):
        grad = rng.normal(size=4).astype(np.float32)
        weights += ours.step(grad, 0.03, weights)
        parameter.grad = torch.from_numpy(grad)
        theirs.step()
    np.testing.assert_allclose(weights, parameter.detach().numpy(), rtol=1e-5)


def test_sgd_descends_the_mean_of_the_last_gradients():
    sgd = make_optimizer(1, SGDOptions(momentum=0.9))
    changes = [float(sgd.step(np.ones(1, np.float32), 0.5, np.zeros(1, np.float32))[0]) for _ in range(3)]
    assert changes == pytest.approx([-0.5 * (1 - 0.9**n) for n in (1, 2, 3)])


def of_torch(name, **kwargs):
    return TorchOptimizerOptions(use=name if ":" in name else f"torch.optim:{name}", kwargs=kwargs)


SOME = {
    "adam": AdamOptions(),
    "sgd": SGDOptions(),
    "plain": of_torch("SGD"),
    "momentum": of_torch("SGD", momentum=0.9, nesterov=True),
    "rmsprop": of_torch("RMSprop", centered=True),
    "adagrad": of_torch("Adagrad"),
    "adamw": of_torch("AdamW", weight_decay=0.1),
    "rprop": of_torch("Rprop"),
    "asgd": of_torch("ASGD"),
    "own": of_torch(f"{__name__}:Signs"),
}


class Signs(torch.optim.Optimizer):
    """Steps by the sign of the gradient, counting its steps."""

    def __init__(self, parameters, lr=1.0):
        super().__init__(parameters, {"lr": lr})

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["n"] = state.get("n", 0) + 1
                parameter.data -= group["lr"] * parameter.grad.sign() / state["n"]


@pytest.mark.parametrize("options", SOME.values(), ids=SOME)
def test_a_restored_optimizer_goes_on(options):
    rng, first, second = np.random.default_rng(0), make_optimizer(3, options), make_optimizer(3, options)
    weights = rng.normal(size=3).astype(np.float32)
    for _ in range(2):
        weights += first.step(rng.normal(size=3).astype(np.float32), 0.01, weights)
    tree, tensors = flatten_state(first.state_dict())
    second.load_state_dict(unflatten_state(json.loads(json.dumps(tree)), tensors))
    for _ in range(2):
        grad = rng.normal(size=3).astype(np.float32)
        change = first.step(grad, 0.01, weights)
        np.testing.assert_array_equal(change, second.step(grad, 0.01, weights))
        assert np.any(change)
        weights += change


@pytest.mark.parametrize("name", ["RMSprop", "NAdam", "AdamW", "Adadelta"])
def test_an_optimizer_of_torch_does_what_it_does_there(name):
    rng, rates = np.random.default_rng(1), (0.1, 0.05, 0.2)
    ours, weights = make_optimizer(4, of_torch(name)), rng.normal(size=4).astype(np.float32)
    parameter = torch.nn.Parameter(torch.from_numpy(weights.copy()))
    theirs = getattr(torch.optim, name)([parameter])
    for rate in rates:
        grad = rng.normal(size=4).astype(np.float32)
        weights += ours.step(grad, rate, weights)
        theirs.param_groups[0]["lr"] = rate
        parameter.grad = torch.from_numpy(grad)
        theirs.step()
        np.testing.assert_allclose(weights, parameter.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (of_torch("RMSProp"), r"torch.optim has no RMSProp(.|\n)*did you mean: torch.optim:RMSprop"),
        (of_torch("LBFGS"), "several times a step"),
        (of_torch("SGD", momentun=0.9), "momentun"),
        (of_torch("lr_scheduler"), "not a class or function"),
        (of_torch("SparseAdam"), "refuses to step"),
        (of_torch("torch.nn:Identity"), "makes no optimiser"),
        (of_torch("no_such_package.at_all:Thing"), "no_such_package"),
    ],
)
def test_what_cannot_optimise_is_refused(options, message):
    with pytest.raises(RequestError, match=message) as caught:
        make_optimizer(3, options)
    assert caught.value.option in ("optimizer", "optimizer.use")


@pytest.mark.parametrize("use", ["es", "bc"])
def test_another_way_of_naming_an_optimizer_is_refused_with_the_right_one(kernel, use):
    if use not in {entry.component.name for entry in kernel.catalog.entries("trainer")}:
        pytest.skip(f"{use} is not installed")
    for optimizer in ({"use": "torch", "name": "RMSprop"}, {"use": "RMSprop"}):
        trainer = {"use": use, "optimizer": optimizer, **({"demonstrations": {"path": "x"}} if use == "bc" else {})}
        data = {"name": "x", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": trainer}
        with pytest.raises(MazeError) as caught:
            experiment_from_mapping(data, kernel=kernel)
        assert 'use = "torch.optim:RMSprop"' in str(caught.value)
