"""Promise 6 at the environment boundary: NaN and infinity stop the run and say where they came from."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.vector import FinalObservation, Group, Tick
from maze_kernel.errors import NonFiniteError
from maze_runtime.env.batch_guard import BatchGuard
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv


class Poisoned(FlatEnv):
    """Episodes of three steps; in the given episode and step something is not finite."""

    structured_spaces = flat_spaces(
        spaces.Dict(count=spaces.Discrete(9), state=spaces.Box(-np.inf, np.inf, (2, 2), np.float32)),
        spaces.Dict(action=spaces.Discrete(2)),
    )

    def __init__(self, where: str = "", episode: int = 0, step: int = 0, value: float = np.nan) -> None:
        self.where, self.at, self.value = where, (episode, step), value
        self.episode, self.count = -1, 0

    def reset(self, *, seed=None, options=None):
        self.episode, self.count = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action):
        self.count += 1
        hit = (self.episode, self.count) == self.at and self.where == "reward"
        return self._observe(), self.value if hit else 1.0, self.count == 3, False, {}

    def _observe(self):
        state = np.full((2, 2), 3e38, np.float32)  # large, finite: the sum overflows and must not alarm
        if (self.episode, self.count) == self.at and self.where == "observation":
            state[1, 0] = self.value
        return {"count": self.count, "state": state}


def _run(bad: Poisoned, n_steps: int = 8):
    envs = BatchGuard(SequentialVectorEnv([Poisoned, lambda: bad]))
    envs.reset([[10], [20, 21]])
    for _ in range(n_steps):
        envs.step({"0": {"action": np.zeros(2, np.int64)}})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("where", "episode", "step", "expected"),
    [
        ("reward", 0, 2, "environment 1, episode 0 (seed 20), step 2"),
        ("reward", 1, 3, "environment 1, episode 1 (seed 21), step 3"),
        ("reward", 2, 1, "environment 1, episode 2 (unseeded, 1 episodes after seed 21), step 1"),
        ("observation", 0, 0, "environment 1, episode 0 (seed 20), step 0"),
        ("observation", 1, 0, "environment 1, episode 1 (seed 21), step 0"),
        ("observation", 1, 1, "environment 1, episode 1 (seed 21), step 1"),
        ("observation", 0, 3, "environment 1, episode 0 (seed 20), step 3"),
    ],
)
def test_the_error_names_environment_episode_seed_and_step(where, episode, step, expected, value):
    with pytest.raises(NonFiniteError) as caught:
        _run(Poisoned(where, episode, step, value))
    assert expected in str(caught.value)
    if where == "observation":
        assert "'state'[1, 0]" in str(caught.value)
        assert ("final observation" in str(caught.value)) == (step == 3)


def test_large_finite_numbers_pass():
    _run(Poisoned())


def test_a_batch_that_changes_its_actions_in_place_changes_a_copy():
    class Scaling:
        n_envs, structured_spaces = 2, Poisoned.structured_spaces

        def __init__(self):
            self.inner = SequentialVectorEnv([Poisoned, Poisoned])
            self.reset = self.inner.reset

        def step(self, actions):
            actions["0"]["action"] *= 0
            return self.inner.step(actions)

    batch, actions = BatchGuard(Scaling()), {"0": {"action": np.ones(2, np.int64)}}
    batch.reset([[0], [1]])
    batch.step(actions)
    assert actions["0"]["action"].tolist() == [1, 1]


def test_rows_that_only_reset_have_masks_that_allow_everything():
    shown = spaces.Dict(go_mask=spaces.MultiBinary(2), gas_mask=spaces.MultiBinary(3))
    mask = np.array([[0, 0], [0, 1]], np.int8)

    class Over:
        n_envs, structured_spaces = 2, flat_spaces(shown, spaces.Dict(go=spaces.Discrete(2)))

        def step(self, actions):
            group = Group(np.arange(2), np.zeros(2, np.int64), {"go_mask": mask, "gas_mask": np.zeros((2, 3), np.int8)})
            ended, last = np.array([True, False]), {name: array[:1] for name, array in group.observation.items()}
            tick = Tick({"0": group}, np.zeros(2, np.float32), ended, np.zeros(2, bool), awaiting_reset=ended)
            tick.final_observation["0"] = FinalObservation(np.arange(1), last)
            return tick

    tick = BatchGuard(Over()).step({"0": {"go": np.zeros(2, np.int64)}})
    assert tick.groups["0"].observation["go_mask"].tolist() == [[1, 1], [0, 1]]
    assert not tick.groups["0"].observation["gas_mask"].any()
    assert tick.final_observation["0"].observation["go_mask"].tolist() == [[0, 0]]
    assert mask.tolist() == [[0, 0], [0, 1]]
