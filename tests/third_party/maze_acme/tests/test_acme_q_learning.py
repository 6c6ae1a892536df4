"""Q-learning: it learns, explores by its own rule, and goes on where it was saved."""

import gymnasium
import numpy as np
import pytest

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import MazeError
from maze_runtime.env.flat import flat_spaces
from maze_runtime.run.assembly import Assembly
from maze_testing.environments import Identity
from maze_testing.trainers import check_trainer

BEST = 8.0
"""The reward of an episode in which every action is right."""
MODEL = {"model.use": "acme-q-network"}


class FromThree(Identity):
    """The same with actions that count from 3."""

    def __init__(self):
        super().__init__()
        action = gymnasium.spaces.Dict({"action": gymnasium.spaces.Discrete(4, start=3)})
        self.structured_spaces = flat_spaces(self.structured_spaces.observation["0"], action)

    def step(self, action):
        return super().step({"action": np.asarray(action["action"]) - 3})


@pytest.mark.parametrize("env", [Identity, FromThree])
def test_it_learns_while_it_explores_and_is_greedy_when_evaluated(context_of, env):
    context = context_of("acme-q-learning", env=env, **MODEL)
    assert context.train().best_metric == BEST
    played = [episode.total_reward for episode in context.rollout(n_episodes=6, deterministic=False).episodes]
    assert BEST / 2 < np.mean(played) < BEST


def test_it_continues_where_it_was_saved(kernel):
    table = {
        "name": "test",
        "env": {"use": "gym", "id": "CartPole-v1"},
        "model": {"use": "acme-q-network"},
        "trainer": {"use": "acme-q-learning", "n_steps": 20},
    }

    def make():
        assembly = Assembly(experiment_from_mapping(table, kernel=kernel), kernel)
        return assembly.make_trainer(assembly.trainer_context())

    check_trainer(make)


def test_a_model_without_values_of_actions_is_refused(context_of):
    with pytest.raises(MazeError, match="needs a model of action values"):
        context_of("acme-q-learning").train()


def test_an_environment_that_it_cannot_act_in_is_refused(context_of):
    with pytest.raises(MazeError, match="one Discrete space") as caught:
        context_of("acme-q-learning", env="Pendulum-v1", **MODEL).train()
    assert "maze" in str(caught.value)
