"""Wrappers that rename, join and split compute in an exported policy what they compute in training."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.catalog import build
from maze_kernel.config.load import select
from maze_runtime.env.flat import flat_spaces

OBSERVATION = spaces.Dict(
    b_mask=spaces.MultiBinary(3),
    c_mask=spaces.Box(0, 1, (2, 2), np.int8),
    gear=spaces.Discrete(3, start=-1),
    kinds=spaces.MultiDiscrete([2, 4], start=[1, -2]),
    picture=spaces.Box(0, 255, (2, 2, 1), np.uint8),
    x=spaces.Box(-1, 5, (2, 2), np.float32),
)
CHOICES = spaces.Dict(
    a=spaces.MultiBinary(2),
    b=spaces.Discrete(3, start=-1),
    c=spaces.MultiBinary((2, 2)),
    d=spaces.MultiDiscrete([2, 3], start=[0, 5]),
)
NUMBERS = spaces.Dict(a=spaces.Box(-1, 1, (2, 2), np.float32), b=spaces.Box(0, 3, (), np.float32))
LONE = spaces.Dict(b=spaces.Discrete(3))
VECTORS = spaces.Dict(a=spaces.MultiDiscrete([2, 3, 4]), b=spaces.Box(-1, 1, (3,), np.float32), d=spaces.Discrete(2))
SPLIT = {"a": {"left": [2], "right": [1, 0]}, "b": {"far": [1], "near": [2, 0]}}


def batch(space, n):
    """(n, …) samples by key."""
    samples = [space.sample() for _ in range(n)]
    return {key: np.stack([np.asarray(sample[key]) for sample in samples]) for key in space.spaces}


@pytest.mark.parametrize(
    ("name", "action", "options"),
    [
        ("no-dict-observation", CHOICES, {}),
        ("no-dict-observation", CHOICES, {"masks": "drop"}),
        ("no-dict-observation", CHOICES, {"masks": "join", "key": "all"}),
        ("no-dict-action", CHOICES, {}),
        ("no-dict-action", NUMBERS, {"key": "all"}),
        ("no-dict-action", LONE, {}),
        ("no-dict-spaces", CHOICES, {}),
        ("no-dict-spaces", NUMBERS, {"masks": "join"}),
        ("split-actions", VECTORS, {"heads": SPLIT}),
    ],
)
@pytest.mark.parametrize("n_envs", [1, 5])
def test_it_says_in_torch_what_it_does_in_numpy(kernel, name, action, options, n_envs):
    observation = spaces.Dict(
        {key: space for key, space in OBSERVATION.spaces.items() if key != "b_mask" or "b" in action}
    )
    transform = build(select(kernel, "wrapper", {"use": name, **options}))
    outer = transform.bind(flat_spaces(observation, action))
    observation.seed(0), outer.action["0"].seed(1)
    for part, space, compute, export in (
        ("observation", observation, transform.observation, transform.export_observation),
        ("action", outer.action["0"], transform.action, transform.export_action),
    ):
        assert transform.exports(part) or not transform.changes(part)
        given = batch(space, n_envs)
        expected = compute("0", given)
        exported = export("0", {key: torch.from_numpy(value) for key, value in given.items()})
        assert list(exported) == list(expected)
        for key, value in expected.items():
            np.testing.assert_array_equal(exported[key].numpy(), value)
            assert exported[key].numpy().dtype == value.dtype or part == "action"
