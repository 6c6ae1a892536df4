"""The losses against NumPy written from the definitions, and their gradients against differences."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from scipy import stats

from maze_bc.losses import Objective, half_widths, inside_bounds
from maze_runtime.models.action_distribution import make_action_distribution

BOXES = {
    "unit": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "uneven": spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32)),
}
FREE = spaces.Box(-np.inf, np.inf, (2,), np.float32)
MIXED = spaces.Dict(
    {
        "pick": spaces.Discrete(4, start=1),
        "grid": spaces.MultiDiscrete([2, 3]),
        "bits": spaces.MultiBinary(3),
        "push": FREE,
    }
)


def objective(kernel, space, loss="auto", margin=0.001):
    return Objective(space, make_action_distribution(space, kernel.catalog), loss, margin)


def random_logits(objective, n_rows=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = objective.distribution.logits_shapes()
    return {
        name: 0.5 * torch.randn(n_rows, *shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes.items()
    }


def random_actions(space, n_rows=7):
    space.seed(1)
    drawn = [space.sample() for _ in range(n_rows)]
    return {name: torch.from_numpy(np.stack([row[name] for row in drawn])) for name in space.spaces}


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum())


def test_the_loss_of_mixed_heads_is_the_sum_of_negative_log_likelihoods(kernel):
    ours = objective(kernel, MIXED)
    logits, action = random_logits(ours), random_actions(MIXED)
    expected = []
    for row in range(7):
        total = -log_softmax(logits["pick"][row].numpy())[int(action["pick"][row]) - 1]
        grid = logits["grid"][row].numpy()
        total -= log_softmax(grid[:2])[action["grid"][row, 0]] + log_softmax(grid[2:])[action["grid"][row, 1]]
        chance = 1.0 / (1.0 + np.exp(-logits["bits"][row].numpy()))
        total -= np.log(np.where(action["bits"][row].numpy() == 1, chance, 1.0 - chance)).sum()
        mean, log_std = np.split(logits["push"][row].numpy(), 2)
        total -= stats.norm.logpdf(action["push"][row].numpy(), mean, np.exp(log_std)).sum()
        expected.append(total)
    np.testing.assert_allclose(ours.rows(logits, action), expected, rtol=1e-6)
    rows, entropy = ours.rows_and_entropy(logits, action)
    np.testing.assert_allclose(rows, expected, rtol=1e-6)
    assert entropy.shape == (7,)


@pytest.mark.parametrize("name", BOXES)
def test_bounded_boxes_honour_the_squashing(kernel, name):
    box = BOXES[name]
    ours = objective(kernel, spaces.Dict({"push": box}))
    logits = random_logits(ours)
    fraction = np.random.default_rng(0).uniform(0.05, 0.95, (7, 2))
    action = box.low + fraction * (box.high - box.low)
    mean, log_std = np.split(logits["push"].numpy(), 2, axis=-1)
    inner = np.arctanh(2.0 * fraction - 1.0)
    # a = low + w (tanh u + 1) / 2, so p(a) = p(u) / (w / 2 (1 − tanh² u))
    slope = (box.high - box.low) / 2.0 * (1.0 - np.tanh(inner) ** 2)
    expected = -(stats.norm.logpdf(inner, mean, np.exp(log_std)) - np.log(slope)).sum(-1)
    np.testing.assert_allclose(ours.rows(logits, {"push": torch.from_numpy(action)}), expected, rtol=1e-5)


@pytest.mark.parametrize("name", BOXES)
def test_actions_at_the_bounds_become_targets_that_a_squashed_mean_can_reach(kernel, name):
    box = BOXES[name]
    ours = objective(kernel, spaces.Dict({"push": box}), margin=0.001)
    targets = ours.targets({"push": np.stack([box.low, box.high, (box.low + box.high) / 2])})["push"]
    width = box.high - box.low
    np.testing.assert_allclose(targets[0], box.low + 0.001 * width, rtol=1e-5)
    np.testing.assert_allclose(targets[1], box.high - 0.001 * width, rtol=1e-5)
    np.testing.assert_array_equal(targets[2], (box.low + box.high) / 2)
    assert targets.dtype == np.float32
    best = np.arctanh(2.0 * (targets.astype(np.float64) - box.low) / width - 1.0)
    logits = torch.from_numpy(np.concatenate([best, np.full((3, 2), -1.0)], -1)).requires_grad_()
    ours.rows({"push": logits}, {"push": torch.from_numpy(targets).double()}).sum().backward()
    assert logits.grad[:, :2].abs().max() < 1e-2
    assert np.abs(best).max() < 4.0


@pytest.mark.parametrize("none", [np.inf, np.finfo(np.float32).max])
def test_a_bound_alone_is_kept_away_from_by_the_margin_itself_and_no_bound_changes_nothing(none):
    box = spaces.Box(np.array([-none, 0.0, -1.0], np.float32), np.array([none, none, 1.0], np.float32))
    action = np.array([[1e6, 0.0, 1.0]], np.float32)
    np.testing.assert_allclose(inside_bounds(action, box, 0.1), [[1e6, 0.1, 0.8]])
    np.testing.assert_array_equal(half_widths(box), [1.0, 1.0, 1.0])


def test_squared_errors_of_a_box_of_one_number_without_dimensions(kernel):
    ours = objective(kernel, spaces.Dict({"push": spaces.Box(-2.0, 2.0, (), np.float32)}), "mse")
    logits = torch.tensor([[0.5, 0.0], [-1.0, 0.0]])
    errors = ours.rows({"push": logits}, {"push": torch.tensor([1.0, -1.0])})
    # ((2 tanh μ − a) / 2)²
    np.testing.assert_allclose(errors, (np.tanh([0.5, -1.0]) - [0.5, -0.5]) ** 2, rtol=1e-5)


def test_squared_errors_are_of_the_mean_in_half_widths(kernel):
    space = spaces.Dict({"pick": spaces.Discrete(3), "push": BOXES["uneven"]})
    ours = objective(kernel, space, "mse")
    logits, action = random_logits(ours), random_actions(space)
    mean = np.split(logits["push"].numpy(), 2, axis=-1)[0]
    box = BOXES["uneven"]
    reached = box.low + (box.high - box.low) * (np.tanh(mean) + 1.0) / 2.0
    error = (reached - action["push"].numpy()) / ((box.high - box.low) / 2.0)
    picked = [log_softmax(row)[choice] for row, choice in zip(logits["pick"].numpy(), action["pick"], strict=True)]
    np.testing.assert_allclose(ours.rows(logits, action), (error**2).sum(-1) - picked, rtol=1e-5)
    at_the_bound = {"push": box.high[None]}
    np.testing.assert_array_equal(ours.targets(at_the_bound)["push"], at_the_bound["push"])


@pytest.mark.parametrize("loss", ["auto", "mse"])
def test_gradients_equal_differences(kernel, loss):
    space = spaces.Dict({**MIXED.spaces, "steer": BOXES["uneven"]})
    ours = objective(kernel, space, loss)
    action = {n: a.double() if a.is_floating_point() else a for n, a in random_actions(space).items()}
    logits = random_logits(ours)
    names = list(logits)

    def value(*parts):
        rows, entropy = ours.rows_and_entropy(dict(zip(names, parts, strict=True)), action)
        return (rows - 0.1 * entropy).mean()

    inputs = [logits[name].requires_grad_() for name in names]
    assert torch.autograd.gradcheck(value, inputs, eps=1e-5, atol=1e-5, rtol=1e-3)
