"""Standard deviations that no observation changes: where they come from, in torch, in NumPy and in every trainer."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

import maze_distributions.plugin
import maze_perception.plugin
from maze_kernel.config.load import select
from maze_kernel.contracts.model import ModelContext
from maze_kernel.loader import Kernel
from maze_perception.block import BlockError
from maze_perception.blocks.dense import LinearOutput
from maze_perception.options import LinearOutputOptions
from maze_runtime.env.flat import flat_spaces

KERNEL = Kernel.of(maze_perception.plugin, maze_distributions.plugin)
PUSH = spaces.Box(-2.0, 2.0, (2,), np.float32)
SPACES = flat_spaces(spaces.Dict(place=spaces.Box(-1.0, 1.0, (3,), np.float32)), spaces.Dict(push=PUSH))


def logits_of(critic="state-value", **rule):
    """Logits (5, 4) of five observations, and those of the mirror, after the weights have left their first values."""
    context = ModelContext(spaces=SPACES, catalog=KERNEL.catalog, seed=3, critic=critic)
    table = {"use": "auto"}
    if rule:
        table["distributions"] = [{"space": "Box", "use": "squashed-gaussian", **rule}]
    model = KERNEL.catalog.build(select(KERNEL, "model", table), context)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    place = torch.randn(5, 3)
    with torch.no_grad():
        by_torch = model.logits("0", {"place": place})["push"].numpy()
    return by_torch, model.numpy_logits("0")({"place": place.numpy()})["push"]


def depend_on_observation(logits):
    return bool((np.ptp(logits, axis=0) > 1e-4).all())


@pytest.mark.parametrize(
    ("critic", "rule", "by_observation"),
    [
        ("state-value", {}, False),
        ("state-action", {}, True),
        ("state-value", {"std_from": "observation"}, True),
        ("state-action", {"std_from": "parameter"}, False),
        ("state-value", {"use": "diagonal-gaussian"}, False),
        ("state-value", {"use": "diagonal-gaussian", "std_from": "observation"}, True),
    ],
)
def test_who_gives_standard_deviations(critic, rule, by_observation):
    by_torch, mirrored = logits_of(critic, **rule)
    np.testing.assert_allclose(mirrored, by_torch, atol=3e-6)
    means, log_stds = by_torch[:, :2], by_torch[:, 2:]
    assert depend_on_observation(means)
    assert depend_on_observation(log_stds) is by_observation
    if not by_observation:
        np.testing.assert_array_equal(log_stds, np.repeat(log_stds[:1], 5, axis=0))


def test_constants_begin_at_zero_and_learn_from_every_row():
    block = LinearOutput(["x"], ["y"], [(3,)], LinearOutputOptions(output_units=5, constant_units=2))
    x = torch.randn(4, 3)
    y = block({"x": x})["y"]
    assert y.shape == (4, 5)
    assert block.out_shapes() == ((5,),)
    assert torch.equal(y[:, 3:], torch.zeros(4, 2))
    weights = torch.arange(8.0).reshape(4, 2)
    (y[:, 3:] * weights).sum().backward()
    torch.testing.assert_close(block.constants.grad, weights.sum(0))


def test_constants_are_exchanged_with_the_other_parameters():
    block = LinearOutput(["x"], ["y"], [(3,)], LinearOutputOptions(output_units=5, constant_units=2))
    others = {name: torch.full_like(own, 7.0) for name, own in block.named_parameters()}
    y = torch.func.functional_call(block, others, ({"x": torch.zeros(4, 3)},))["y"]
    assert torch.equal(y, torch.full((4, 5), 7.0))


def test_constants_stand_behind_every_item_of_a_sequence():
    block = LinearOutput(["x"], ["y"], [(7, 3)], LinearOutputOptions(output_units=5, constant_units=2))
    assert block.out_shapes() == ((7, 5),)
    assert block({"x": torch.randn(4, 7, 3)})["y"].shape == (4, 7, 5)


def test_an_output_of_constants_alone_is_refused():
    with pytest.raises(BlockError, match="reads its input"):
        LinearOutput(["x"], ["y"], [(3,)], LinearOutputOptions(output_units=2, constant_units=2))
