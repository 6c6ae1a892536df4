"""The most probable actions, against a slow enumeration of all of them."""

import itertools

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_kernel.loader import Kernel
from maze_runtime.models.action_distribution import make_action_distribution
from maze_runtime.models.top_actions import top_actions

SPACE = spaces.Dict(pick=spaces.Discrete(4, start=2), grid=spaces.MultiDiscrete([2, 3]), bits=spaces.MultiBinary(2))


def case(space, seed):
    distribution = make_action_distribution(space, Kernel.installed().catalog)
    rng = np.random.default_rng(seed)
    logits = {
        head: rng.normal(size=(1, *part.logits_shape)).astype(np.float32) for head, part in distribution.heads.items()
    }
    return distribution, logits


def every_action(space):
    values = {
        "pick": [np.int64(value) for value in range(2, 6)],
        "grid": [np.array(pair) for pair in itertools.product(range(2), range(3))],
        "bits": [np.array(pair, np.int8) for pair in itertools.product(range(2), repeat=2)],
    }
    for combination in itertools.product(*(values[head] for head in space.spaces)):
        yield dict(zip(space.spaces, combination, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_they_are_the_best_of_all(seed):
    distribution, logits = case(SPACE, seed)
    tensors = {head: torch.from_numpy(array) for head, array in logits.items()}
    slow = []
    for action in every_action(SPACE):
        rows = {head: torch.as_tensor(np.asarray(value))[None] for head, value in action.items()}
        slow.append((float(distribution.log_prob(tensors, rows).exp()), action))
    slow.sort(key=lambda one: -one[0])
    assert sum(probability for probability, _ in slow) == pytest.approx(1.0, abs=1e-5)
    found = top_actions(distribution, SPACE, logits, 7)
    assert len(found) == 7
    for (action, probability), (expected, wanted) in zip(found, slow[:7], strict=True):
        assert probability == pytest.approx(expected, rel=1e-4)
        for head in SPACE.spaces:
            np.testing.assert_array_equal(action[head], wanted[head])
    everything = top_actions(distribution, SPACE, logits, 10_000)
    assert len(everything) == len(slow)
    assert sum(probability for _, probability in everything) == pytest.approx(1.0, abs=1e-5)


def test_what_a_mask_forbids_is_left_out():
    from maze_runtime.models.masking import MASKED_LOGIT

    space = spaces.Dict(pick=spaces.Discrete(3))
    distribution, logits = case(space, 0)
    logits["pick"][0, 1] = MASKED_LOGIT
    found = top_actions(distribution, space, logits, 5)
    assert sorted(int(action["pick"]) for action, _ in found) == [0, 2]


def test_numbers_cannot_be_ranked():
    space = spaces.Dict(steer=spaces.Box(-1.0, 1.0, (2,)))
    distribution, logits = case(space, 0)
    with pytest.raises(SpaceError, match="steer"):
        top_actions(distribution, space, logits, 3)
