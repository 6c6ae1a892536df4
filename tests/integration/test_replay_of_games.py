"""What replay holds of a game whose agents die: each one's own transitions, the last of them terminal."""

from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

from maze_kernel.contracts.model import PolicyContext
from maze_pettingzoo.env import PettingZooEnv
from maze_pettingzoo.making import as_turns
from maze_pettingzoo.options import PettingZooOptions
from maze_replay.collector import TransitionCollector
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv

GAMMA = 0.9


class Deadly(ParallelEnv):
    """Four agents act at once, are paid at random and die at random; everything is written down, game by game."""

    metadata: ClassVar = {"name": "deadly"}
    render_mode = None

    def __init__(self, index):
        self.possible_agents = [f"runner_{i}" for i in range(4)]
        self.rng, self.count, self.games = np.random.default_rng(index), 100_000 * index, []

    def observation_space(self, agent):
        return spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(1000)

    def reset(self, seed=None, options=None):
        self.agents, self.over = list(self.possible_agents), False
        self.games.append({"over": False, "lives": {agent: [] for agent in self.agents}})
        return self._see(), {agent: {} for agent in self.agents}

    def _see(self):
        self.seen = {}
        for agent in self.agents:
            self.count += 1
            self.seen[agent] = self.count
        return {agent: np.array([number], np.float32) for agent, number in self.seen.items()}

    def step(self, actions):
        dies = {agent: bool(self.rng.random() < 0.2) for agent in self.agents}
        pay = {agent: float(self.rng.normal()) for agent in self.agents}
        for agent, action in actions.items():
            self.games[-1]["lives"][agent].append((self.seen[agent], int(action), pay[agent], dies[agent]))
        observations = self._see()
        acting, self.agents = self.agents, [agent for agent in self.agents if not dies[agent]]
        self.games[-1]["over"] = not self.agents
        return observations, pay, dies, dict.fromkeys(acting, False), {agent: {} for agent in acting}


@pytest.mark.parametrize("n_envs", [1, 3])
def test_each_agent_has_its_own_transitions_until_it_dies(n_envs):
    games = [Deadly(index + 1) for index in range(n_envs)]
    options = PettingZooOptions(id="")
    batch = SequentialVectorEnv([lambda game=game: PettingZooEnv(as_turns(game), options) for game in games])
    policy = RandomPolicy(PolicyContext(spaces=batch.structured_spaces, seed=3))
    collector = TransitionCollector(batch, gamma=GAMMA, size=20_000)
    collector.reset([[index] for index in range(n_envs)])
    collector.collect(policy, 600)
    expected = {}
    for game in games:
        for lives in (each["lives"] for each in game.games if each["over"]):
            for life in lives.values():
                for (seen, action, pay, _), following in zip(life, [*life[1:], None], strict=True):
                    expected[seen] = (action, pay, None if following is None else following[0])
    (replay,) = collector.replay.values()
    batch = replay.sample(20_000, np.random.default_rng(0))
    found = set()
    for i, number in enumerate(batch.observation["observation"][:, 0].tolist()):
        if number not in expected:  # of a game that goes on
            continue
        action, pay, following = expected[number]
        assert int(batch.action["action"][i]) == action
        assert batch.reward[i] == pytest.approx(pay, abs=1e-4)
        assert batch.discount[i] == (0.0 if following is None else 1.0)
        if following is not None:
            assert batch.next_observation["observation"][i, 0] == following
        found.add(number)
    assert len(expected) > 300
    assert len(found) > 0.95 * len(expected)
    collector.close()
