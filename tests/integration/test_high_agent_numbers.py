"""Agents may be numbered as customers or orders are, in the millions: they learn and play as if counted from 0 on."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.config import experiment_from_mapping
from maze_kernel.contracts.env import ActorID, StructuredSpaces
from maze_runtime.env.flat import FlatEnv
from maze_runtime.run.assembly import Assembly


class Orders(FlatEnv):
    """Three orders decide one after the other, each three times in an episode."""

    def __init__(self, *, first: int = 0, box: bool = False):
        self.first = first
        action = spaces.Box(-1.0, 1.0, (1,), np.float32) if box else spaces.Discrete(2)
        self.structured_spaces = StructuredSpaces(
            observation={"order": spaces.Dict(size=spaces.Box(-1.0, 1.0, (2,), np.float32))},
            action={"order": spaces.Dict(take=action)},
            agent_counts={"order": -1},
        )

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.t = 0
        return self.look(), {}

    def look(self):
        return {"size": self.rng.uniform(-1, 1, 2).astype(np.float32)}

    def actor_id(self):
        return ActorID("order", self.first + self.t % 3)

    def is_flat_step_end(self):
        return self.t % 3 == 0

    def step(self, action):
        self.t += 1
        return self.look(), float(np.sum(action["take"])), self.t == 9, False, {}


TRAINED = {
    "recurrent": {"preset": "recurrent", "trainer": {"use": "ppo", "n_rollout_steps": 24, "batch_size": 48}},
    "stacked": {
        "wrappers": [{"use": "observation-stack", "n": 3}],
        "trainer": {"use": "ppo", "n_rollout_steps": 24, "batch_size": 48},
    },
    "noisy": {
        "trainer": {"use": "td3", "batch_size": 16, "initial_buffer_size": 20, "exploration_correlation": 0.8},
    },
}


@pytest.mark.parametrize("kind", TRAINED)
def test_numbers_in_the_millions_change_nothing(kind, kernel):
    weights = []
    for first in (0, 5_000_000):
        tables = {"name": "orders", "seed": 3, "vector": {"n_envs": 4}, **TRAINED[kind]}
        tables["trainer"] = {**tables["trainer"], "epoch_length": 2 if kind != "noisy" else 30}
        tables["env"] = {"use": f"{__name__}:Orders", "first": first, "box": kind == "noisy"}
        assembly = Assembly(experiment_from_mapping(tables, kernel=kernel), kernel)
        trainer = assembly.make_trainer(assembly.trainer_context())
        trainer.start_segment(0)
        trainer.train_epoch()
        weights.append(torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()]))
    assert torch.equal(*weights)
