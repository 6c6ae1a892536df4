"""A deployed agent sees and does, bit for bit, what the policy sees and does in `maze rollout`."""

import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from maze_cutting2d.greedy import GreedyPolicy
from maze_deployment.agent import AgentDeployment
from maze_kernel.contracts.model import PolicyContext
from maze_runtime.context import RunContext
from maze_runtime.rollout.episodes import run_episodes
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv

sys.path.insert(0, str(Path(__file__).parent))
from playing_both_ways import Recording, assert_same_decisions, environment_of, rolled_out

SEEDS = [5, 6, 7]


class Masked(gymnasium.Wrapper):
    """CartPole that forbids pushing the same way three times; the mask is in info, or given by a method."""

    def __init__(self, env, by_method=False):
        super().__init__(env)
        self.by_method = by_method
        if by_method:
            self.action_masks = self._mask

    def reset(self, **arguments):
        self.pushed = []
        observation, info = self.env.reset(**arguments)
        return observation, self._info(info)

    def step(self, action):
        self.pushed.append(action)
        *result, info = self.env.step(action)
        return *result, self._info(info)

    def _info(self, info):
        return info if self.by_method else {**info, "action_mask": self._mask()}

    def _mask(self):
        last = self.pushed[-2:]
        return np.array([last != [0, 0], last != [1, 1]], np.int8)


def masked_env():
    return Masked(gymnasium.make("CartPole-v1"))


def masked_by_method():
    return Masked(gymnasium.make("CartPole-v1"), by_method=True)


def play(agent, env, seed, *, with_mask=False):
    """Be the simulation: step a Gymnasium environment with what the agent says."""
    agent.policy = recording = Recording(agent.policy)
    agent.reset(seed=seed)
    observation, info = env.reset(seed=seed)
    action = agent.act(observation, info=_masked(env, info, with_mask))
    while action is not None:
        observation, reward, terminated, truncated, info = env.step(action)
        action = agent.act(observation, reward, terminated, truncated, _masked(env, info, with_mask))
    agent.policy = recording.policy
    return recording.log


def _masked(env, info, with_mask):
    return {**info, "action_mask": env.action_masks()} if with_mask else info


CASES = {
    "flat": ("CartPole-v1", {}, lambda: gymnasium.make("CartPole-v1")),
    "normalised": (
        "Pendulum-v1",
        {"wrappers": [{"use": "observation-normalization", "statistics": "running"}, "return-normalization"]},
        lambda: gymnasium.make("Pendulum-v1"),
    ),
    "estimated": (
        "CartPole-v1",
        {"wrappers": ["observation-normalization"]},
        lambda: gymnasium.make("CartPole-v1"),
    ),
    "masked": (masked_env, {}, masked_env),
    "masked by a method": (masked_by_method, {}, masked_by_method),
    "wrappers that step": (
        "CartPole-v1",
        {"wrappers": ["stepping_wrappers:RepeatTwice", "stepping_wrappers:RandomStart"]},
        lambda: gymnasium.make("CartPole-v1"),
    ),
}


@pytest.mark.parametrize("deterministic", [True, False], ids=["deterministic", "stochastic"])
@pytest.mark.parametrize("case", CASES)
def test_actions_equal_those_of_rollouts(train, case, deterministic):
    env, arguments, make_env = CASES[case]
    context = train(env, overrides={"vector.mode": "sequential"}, **arguments)
    expected, results = rolled_out(context, SEEDS, deterministic=deterministic)
    outside = make_env()
    with AgentDeployment.load(context, deterministic=deterministic) as agent:
        for seed, decisions in zip(SEEDS, expected, strict=True):
            with_mask = case == "masked by a method"
            assert_same_decisions(play(agent, outside, seed, with_mask=with_mask), decisions)
        episodes = agent.drain_episodes()
    if case != "wrappers that step":  # its rollouts count decisions, its agent the steps of the simulation
        totals = [(result.total_reward, result.length) for result in results]
        assert [(pytest.approx(episode.total_reward), episode.length) for episode in episodes] == totals


def cutting(version):
    env = {"use": "cutting-2d", "version": version, "max_episode_steps": 25, "max_pieces_in_inventory": 12}
    return env | ({"observation": {"use": "inventory", "scaled": True}} if version == "flat" else {})


def play_cutting(agent, context, seed):
    """Be the warehouse: carry out MazeActions on a core environment of its own, and report its events."""
    agent.policy = recording = Recording(agent.policy)
    core_env = environment_of(context).core_env
    happened = core_env.pubsub.record()
    state = core_env.reset(seed)
    actions = agent.act(state, events=happened)
    while actions is not None:
        happened.clear()
        for action in actions if isinstance(actions, tuple) else (actions,):
            state, reward, terminated, truncated, _ = core_env.step(action)
        actions = agent.act(state, reward, terminated, truncated, events=happened)
    agent.policy = recording.policy
    return recording.log


@pytest.mark.parametrize("version", ["flat", "structured", "masked"])
def test_a_heuristic_is_deployed_in_all_versions_of_an_environment(tmp_path, monkeypatch, version):
    monkeypatch.chdir(tmp_path)
    context = RunContext(env=cutting(version), silent=True)
    expected, results = rolled_out(context, [1], policy="cutting-2d-greedy")
    with AgentDeployment.load(context, policy="cutting-2d-greedy") as agent:
        assert_same_decisions(play_cutting(agent, context, 1), expected[0])
        (episode,) = agent.drain_episodes()
    assert episode.length == results[0].length == 25


def test_event_statistics_equal_those_of_rollouts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    context = RunContext(env=cutting("structured"), silent=True)
    env = environment_of(context)
    with AgentDeployment.load(context, policy="cutting-2d-greedy") as agent:
        play_cutting(agent, context, 1)
        play_cutting(agent, context, 2)
        ours = [episode.events for episode in agent.drain_episodes()]
    batch = SequentialVectorEnv([lambda: env])
    policy = GreedyPolicy(PolicyContext(spaces=env.structured_spaces))
    run_episodes(batch, policy, [1, 2], deterministic=True)
    assert len(ours) == 2
    assert batch.drain_batch_statistics()[0] == ours


def test_a_trained_cutter_is_deployed(train):
    context = train(cutting("flat"))
    expected, _ = rolled_out(context, [3])
    with AgentDeployment.load(context) as agent:
        assert_same_decisions(play_cutting(agent, context, 3), expected[0])
