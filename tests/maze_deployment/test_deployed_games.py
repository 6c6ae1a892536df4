"""A PettingZoo game asks a deployed agent in its own words: agent by agent, or all at once, by their names."""

import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from mpe2 import simple_spread_v3
from pettingzoo import ParallelEnv
from pettingzoo.classic import connect_four_v3
from pettingzoo.utils.conversions import parallel_to_aec

from maze_deployment.agent import AgentDeployment
from maze_kernel.contracts.env import ActorID
from maze_kernel.errors import EnvError, NonFiniteError, RequestError
from maze_runtime.context import RunContext
from maze_runtime.rollout.heuristic import Heuristic

sys.path.insert(0, str(Path(__file__).parent))
from playing_both_ways import Recording, assert_same_decisions, rolled_out

FOUR = "pettingzoo.classic.connect_four_v3"
SPREAD = "mpe2.simple_spread_v3"
SEEDS = [5, 6]


class Runners(ParallelEnv):
    """Three agents at once; agent i leaves after i + 2 rounds. Masks in info forbid one of two heads' choices."""

    metadata = {"name": "runners", "is_parallelizable": True}  # noqa: RUF012
    render_mode = None

    def __init__(self):
        self.possible_agents = [f"runner_{i}" for i in range(3)]
        self.spaces = {agent: spaces.MultiDiscrete([2, 3]) for agent in self.possible_agents}

    def observation_space(self, agent):
        return spaces.Box(-9, 9, (2,), np.float64)

    def action_space(self, agent):
        return self.spaces[agent]

    def reset(self, seed=None, options=None):
        self.rng, self.round, self.agents = np.random.default_rng(seed), 0, list(self.possible_agents)
        return self._seen()

    def step(self, actions):
        assert set(actions) == set(self.agents)
        for agent, action in actions.items():
            assert all(mask[choice] for mask, choice in zip(self.masks[agent], action, strict=True)), (agent, action)
        self.round += 1
        observations, infos = self._seen()
        out = {agent: self.round >= int(agent[-1]) + 2 for agent in self.agents}
        rewards = {agent: float(np.sum(actions[agent])) for agent in self.agents}
        self.agents = [agent for agent in self.agents if not out[agent]]
        return observations, rewards, out, dict.fromkeys(out, False), infos

    def _seen(self):
        self.masks = {agent: ([1, 1], np.eye(3)[self.rng.integers(3)] == 0) for agent in self.agents}
        observations = {agent: self.rng.normal(size=2) for agent in self.agents}
        infos = {
            agent: {"action_mask": [np.array(mask, np.int8) for mask in self.masks[agent]]} for agent in self.agents
        }
        return observations, infos


def play_all(agent, game, seed):
    """PettingZoo's loop of a parallel game."""
    observations, infos = game.reset(seed=seed)
    actions = agent.act(observations, info=infos)
    while actions is not None:
        observations, rewards, terminations, truncations, infos = game.step(actions)
        actions = agent.act(observations, rewards, terminations, truncations, infos)


def play_by_turns(agent, game, seed):
    """PettingZoo's loop of agents that take turns."""
    game.reset(seed=seed)
    for name in game.agent_iter():
        observation, reward, terminated, truncated, info = game.last()
        action = agent.act(observation, reward, terminated, truncated, info, actor_id=name)
        assert (action is None) == (terminated or truncated)
        game.step(action)


def play_by_dicts_of_one(agent, game, seed):
    """The same loop, with the name in dicts."""
    game.reset(seed=seed)
    for name in game.agent_iter():
        observation, reward, terminated, truncated, info = game.last()
        told = ({name: value} for value in (observation, reward, terminated, truncated, info))
        actions = agent.act(*told)
        game.step((actions or {}).get(name))


FOUR_ENV = {"use": "pettingzoo", "id": FOUR}
SPREAD_ENV = {"use": "pettingzoo", "id": SPREAD, "kwargs": {"max_cycles": 7}}
RUNNERS_ENV = {"use": "pettingzoo", "id": f"{__name__}:Runners"}
STATISTICS = {"use": "observation-normalization", "statistics": "running"}
CASES = {
    "four by turns": (FOUR_ENV, connect_four_v3.env, play_by_turns, {}),
    "four in dicts": (FOUR_ENV, connect_four_v3.env, play_by_dicts_of_one, {}),
    "four as a team": (FOUR_ENV | {"rewards": "team"}, connect_four_v3.env, play_by_turns, {}),
    "four against random": (FOUR_ENV | {"random_agents": ["player_1"]}, connect_four_v3.env, play_by_turns, {}),
    "spread at once": (
        SPREAD_ENV | {"rewards": "team"},
        lambda: simple_spread_v3.parallel_env(max_cycles=7),
        play_all,
        {"wrappers": [{"use": "time-limit", "max_episode_steps": 20}, STATISTICS]},
    ),
    "spread by turns": (SPREAD_ENV, lambda: simple_spread_v3.env(max_cycles=7), play_by_turns, {}),
    "runners at once": (RUNNERS_ENV | {"rewards": "team"}, Runners, play_all, {}),
    "runners paid their own": (RUNNERS_ENV, Runners, play_all, {"wrappers": [STATISTICS]}),
    "runners by turns": (RUNNERS_ENV | {"rewards": "team"}, lambda: parallel_to_aec(Runners()), play_by_turns, {}),
}


@pytest.mark.parametrize("deterministic", [True, False], ids=["deterministic", "stochastic"])
@pytest.mark.parametrize("case", CASES)
def test_actions_of_games_equal_those_of_rollouts(train, case, deterministic):
    env, make_game, play, arguments = CASES[case]
    context = train(env, **{"wrappers": []} | arguments, overrides={"evaluation.n_episodes": 0})
    expected, results = rolled_out(context, SEEDS, deterministic=deterministic)
    with AgentDeployment.load(context, deterministic=deterministic, checkpoint="last") as agent:
        policy = agent.policy
        for seed, decisions in zip(SEEDS, expected, strict=True):
            agent.policy = recording = Recording(policy)
            agent.reset(seed=seed)
            play(agent, make_game(), seed)
            assert_same_decisions(recording.log, decisions)
        episodes = agent.drain_episodes()
    totals = [(pytest.approx(result.total_reward), result.length) for result in results]
    assert [(episode.total_reward, episode.length) for episode in episodes] == totals


@pytest.fixture(scope="module")
def four():
    return RunContext(env=FOUR_ENV, silent=True)


@pytest.fixture
def board():
    game = connect_four_v3.env()
    game.reset(seed=0)
    return game.last()[0]


BAD = {
    "nobody": ({}, "does not say whose it is"),
    "a stranger": ({"actor_id": "player_7"}, "no agent of the game"),
    "a number too high": ({"actor_id": ActorID("player", 2)}, "no agent of the game"),
    "another shape": ({"actor_id": "player_0", "maze_state": np.zeros(3)}, "observation"),
    "no truth value": ({"actor_id": "player_0", "terminated": "no"}, "truth value"),
    "no number": ({"actor_id": "player_0", "reward": "high"}, "reward"),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_news_of_an_agent_is_refused_and_changes_nothing(four, board, bad):
    arguments, words = BAD[bad]
    with AgentDeployment.load(four, policy="random") as agent:
        for _ in range(2):
            with pytest.raises(EnvError, match=words) as raised:
                agent.act(**{"maze_state": board} | arguments)
            assert "AgentDeployment.act" in raised.value.owner
            assert agent.act(board, actor_id="player_0") in range(7)


def test_dicts_by_other_names_are_refused(four, board):
    with AgentDeployment.load(four, policy="random") as agent:
        with pytest.raises(EnvError, match="does not say whose it is") as raised:
            agent.act({"red": board})
        assert "player_0" in raised.value.expected
        with pytest.raises(EnvError, match="reward has keys that are no agents"):
            agent.act({"player_0": board}, {"red": 1.0})
        with pytest.raises(NonFiniteError, match="reward"):
            agent.act({"player_0": board}, {"player_0": float("nan")})
        with pytest.raises(EnvError, match="no dict"):
            agent.act({"player_0": board}, info="none")
        with pytest.raises(EnvError, match="whose mask"):
            agent.act({"player_0": board}, info={"action_mask": board["action_mask"]})
        assert set(agent.act({"player_0": board})) == {"player_0"}


def test_a_number_of_a_policy_names_an_agent_too(four, board):
    with AgentDeployment.load(four, policy="random") as agent:
        assert agent.act(board, actor_id=ActorID("player", 1)) in range(7)


def test_one_player_alone_is_told_of_its_own_game(four, board):
    with AgentDeployment.load(four, policy="random") as agent:
        assert agent.act(board, actor_id="player_1") in range(7)
        assert agent.act(board, 1.0, True, actor_id="player_1") is None
        assert agent.act(board, -1.0, True, actor_id="player_0") is None  # who was never asked
        assert agent.act({"player_1": board}, {}, {"player_1": True}) is None
        (episode,) = agent.drain_episodes()
    assert (episode.total_reward, episode.terminated) == (1.0, True)


def test_one_flag_ends_the_game_for_everybody():
    game = Runners()
    with AgentDeployment.load(RunContext(env=RUNNERS_ENV, silent=True), policy="random") as agent:
        observations, infos = game.reset(seed=0)
        assert set(agent.act(observations, info=infos)) == set(game.agents)
        assert set(agent.act(observations, 3.0, info=infos)) == set(game.agents)
        assert agent.act({}, 3.0, truncated=True) is None
        (episode,) = agent.drain_episodes()
    assert (episode.total_reward, episode.truncated) == (6.0, True)


def test_a_wrapper_that_ends_episodes_does_not_stop_the_game():
    wrappers = [{"use": "time-limit", "max_episode_steps": 2}]
    context = RunContext(env=SPREAD_ENV | {"rewards": "team"}, wrappers=wrappers, silent=True)
    with AgentDeployment.load(context, policy="random") as agent:
        play_all(agent, simple_spread_v3.parallel_env(max_cycles=7), seed=0)
        (episode,) = agent.drain_episodes()
    assert (episode.length, episode.truncated) == (7, True)


def test_an_agent_without_a_choice_gets_any_action_of_its_space(four, board):
    stuck = {**board, "action_mask": np.zeros(7, np.int8)}
    with AgentDeployment.load(four, policy="random") as agent:
        actions = agent.act({"player_0": stuck, "player_1": board})
    assert set(actions) == {"player_0", "player_1"}
    assert all(action in range(7) for action in actions.values())


def test_the_most_probable_actions_are_the_games_own(train):
    context = train({**RUNNERS_ENV, "rewards": "team"}, wrappers=[], overrides={"evaluation.n_episodes": 0})
    observations, infos = Runners().reset(seed=3)
    name = "runner_1"
    with AgentDeployment.load(context, checkpoint="last") as agent:
        action = agent.act(observations[name], info=infos[name], actor_id=name)
        best = agent.top_actions(3)
    np.testing.assert_array_equal(best[0].action, action)
    told = {"info": infos[name], "policy_key": "runner", "agent_id": 1}
    np.testing.assert_array_equal(context.compute_action(observations[name], **told), action)
    ours = context.top_actions(observations[name], 3, **told)
    assert [candidate.probability for candidate in ours] == [candidate.probability for candidate in best]
    with pytest.raises((EnvError, RequestError), match="no such agent"):
        context.compute_action(observations[name], **told | {"agent_id": 3})


class Plans(Heuristic):
    def act_one(self, observation, moment):
        return self.clone(moment).actor_id().agent_id


def test_a_game_elsewhere_cannot_be_cloned(four, board):
    with (
        AgentDeployment.load(four, policy=f"{__name__}:Plans") as agent,
        pytest.raises(EnvError, match="runs outside of this process"),
    ):
        agent.act(board, actor_id="player_0")
