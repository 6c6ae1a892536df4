"""The first fill comes to its end wherever episodes do, and says what is missing."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.errors import RequestError
from maze_replay.filling import PATIENCE, fill
from maze_replay.replay import ReplayBuffer

PLAIN = spaces.Dict(x=spaces.Box(-1, 1, (1,), np.float32))
STACKED = spaces.Dict(x=spaces.Box(0, 255, (4, 16, 16), np.uint8))
ACTION = spaces.Dict(a=spaces.Discrete(2))
RINGS = np.arange(2)


def cut_after_one_step(observation, size):
    """A buffer of two rings, and what stores an episode of one step, which is cut, in each."""
    buffer = ReplayBuffer(observation, ACTION, len(RINGS), size)
    seen = {"x": np.zeros((len(RINGS), *observation["x"].shape), observation["x"].dtype)}

    def collect():
        buffer.observe(RINGS, seen)
        buffer.decide(RINGS, {"a": np.zeros(len(RINGS), np.int64)})
        buffer.store(RINGS, np.ones(len(RINGS)), np.full(len(RINGS), 0.9))
        buffer.observe(RINGS, seen)
        buffer.cut(RINGS)
        return len(RINGS)

    return buffer, collect


@pytest.mark.parametrize("observation", [PLAIN, STACKED])
@pytest.mark.parametrize("size", [14, 20, 40, 42])
def test_half_of_what_holds_transitions_is_enough_where_all_episodes_are_cut_at_once(observation, size):
    buffer, collect = cut_after_one_step(observation, size)
    fill({"0": buffer}, 1000, collect, lambda n_steps: None)
    n_lost = 3 if observation is STACKED else 0
    assert buffer.n_transitions >= 2 * ((size // 2 - 1 - n_lost) // 2)


def test_a_policy_that_plays_no_more_is_told_from_a_policy_key_that_never_decides():
    buffer, collect = cut_after_one_step(PLAIN, 400)
    collect()
    with pytest.raises(RequestError, match="too few transitions were collected") as refusal:
        fill({"0": buffer}, 10, lambda: 1, lambda n_steps: None)
    assert refusal.value.received == f"2 after {PATIENCE * 11 + 1} environment steps of the first policy"
    assert "10" in refusal.value.expected
    silent = ReplayBuffer(PLAIN, ACTION, 2, 400)
    with pytest.raises(RequestError, match="'1' made no two decisions one after the other"):
        fill({"0": buffer, "1": silent}, 1, lambda: 1, lambda n_steps: None)
