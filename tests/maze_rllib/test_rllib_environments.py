"""Structured environments as RLlib's multi-agent ones: who is asked, who is paid, and how an episode ends."""

import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("ray", reason="Ray is not installed")

from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from maze_kernel.contracts.env import ActorID, StructuredSpaces
from maze_kernel.errors import NonFiniteError
from maze_rllib.environments import FlatEnvs, StructuredAsMultiAgent
from maze_runtime.env.flat import FlatEnv
from maze_testing.environments import Identity

TURNS = ("a", "b", "a", "a", "b", "a")
PAY = (1.0, 2.0, 4.0, 8.0, 16.0)


class Scripted(FlatEnv):
    """Two actors decide in the order of `TURNS` and the environment pays `PAY`."""

    def __init__(self, end="terminated", leaver=None, turns=TURNS, gone=None):
        observation = {key: spaces.Dict({"time": spaces.Box(-1.0, 9.0, (1,), np.float32)}) for key in "ab"}
        action = {key: spaces.Dict({"choice": spaces.Discrete(2)}) for key in "ab"}
        self.structured_spaces = StructuredSpaces(observation=observation, action=action, agent_counts={"a": 1, "b": 1})
        self.end, self.leaver, self.time = end, leaver, 0
        self.turns, self.gone = turns, gone

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return {"time": np.float32([0.0])}, {}

    def step(self, action):
        assert isinstance(action["choice"], int)
        reward = PAY[self.time]
        self.time += 1
        over = self.time == len(PAY)
        ends = (over and self.end == "terminated", over and self.end == "truncated")
        return {"time": np.float32([self.time])}, reward, *ends, {}

    def actor_id(self):
        return ActorID(self.turns[self.time], 0)

    def is_actor_done(self):
        return self.time == self.leaver

    def departed_actors(self):
        return (ActorID("a", 0),) if self.time == self.gone else ()


def played(env):
    """The episode as RLlib stores it."""
    episode = MultiAgentEpisode(agent_to_module_mapping_fn=lambda agent, _episode: agent)
    observations, infos = env.reset()
    episode.add_env_reset(observations=observations, infos=infos)
    while not episode.is_done:
        (agent,) = observations
        actions = {agent: np.int64(1)}
        observations, rewards, terminated, truncated, infos = env.step(actions)
        episode.add_env_step(observations, actions, rewards, infos, terminateds=terminated, truncateds=truncated)
    return episode


def test_each_agent_is_paid_all_that_comes_between_its_decisions():
    env = StructuredAsMultiAgent(Scripted())
    assert env.possible_agents == ["a/0", "b/0"]
    episode = played(env)
    # a decides at 0, 2 and 3, b at 1 and 4, which ends the episode
    assert list(episode.agent_episodes["a/0"].get_rewards()) == [1 + 2, 4, 8 + 16]
    assert list(episode.agent_episodes["b/0"].get_rewards()) == [2 + 4 + 8, 16]
    assert [float(o[0]) for o in episode.agent_episodes["a/0"].get_observations()][:3] == [0, 2, 3]
    assert all(own.is_terminated for own in episode.agent_episodes.values())
    assert (env.episode_return, env.episode_length) == (31.0, 5)


def test_a_truncated_episode_has_a_last_observation_of_every_agent():
    episode = played(StructuredAsMultiAgent(Scripted("truncated")))
    assert all(own.is_truncated and not own.is_terminated for own in episode.agent_episodes.values())
    assert [float(o[0]) for o in episode.agent_episodes["a/0"].get_observations()] == [0, 2, 3, 5]
    assert [float(o[0]) for o in episode.agent_episodes["b/0"].get_observations()] == [1, 4, 4]
    assert list(episode.agent_episodes["b/0"].get_rewards()) == [14, 16]


def test_who_has_left_earns_nothing():
    episode = played(StructuredAsMultiAgent(Scripted(leaver=4)))
    assert list(episode.agent_episodes["a/0"].get_rewards()) == [3, 4, 8]
    assert episode.agent_episodes["a/0"].is_terminated
    assert list(episode.agent_episodes["b/0"].get_rewards()) == [14, 16]


def test_who_leaves_in_anothers_turn_is_paid_until_then():
    episode = played(StructuredAsMultiAgent(Scripted(turns="aabbbb", gone=4)))
    assert list(episode.agent_episodes["a/0"].get_rewards()) == [1, 2 + 4 + 8]
    assert episode.agent_episodes["a/0"].is_terminated
    assert list(episode.agent_episodes["b/0"].get_rewards()) == [4, 8, 16]


def test_a_batch_counts_what_its_environments_earn():
    batch = FlatEnvs(lambda: Identity(n_steps=3), ())({"num_envs": 2})
    observation, _ = batch.reset(seed=3)
    for _ in range(3):
        observation, *_ = batch.step(observation.argmax(axis=1))
    assert [env.unwrapped.episode_return for env in batch.envs] == [3.0, 3.0]
    assert [env.unwrapped.episode_length for env in batch.envs] == [3, 3]
    batch.close()


def test_what_is_not_finite_is_refused():
    class Broken(Identity):
        def _reward(self, action):
            return float("nan")

    env = FlatEnvs(Broken, ()).one()
    env.reset(seed=0)
    with pytest.raises(NonFiniteError, match="reward"):
        env.step(0)
