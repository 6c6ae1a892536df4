"""Games of somebody's own that lack what PettingZoo reads: it is named; errors of the game stay its own."""

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from maze_kernel.errors import EnvError
from maze_pettingzoo.env import PettingZooEnv
from maze_pettingzoo.making import as_turns

AGENTS = ["left", "right"]


class Parallel(ParallelEnv):
    """Both are paid 1 a step, for three steps; `breaks` takes the results of a step, and returns others."""

    def __init__(self, breaks=None, breaks_reset=None):
        self.metadata = {"name": "parallel"}
        self.possible_agents, self.breaks, self.breaks_reset = list(AGENTS), breaks, breaks_reset

    def observation_space(self, agent):
        return spaces.Box(0, 9, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.round = list(AGENTS), 0
        result = self.seen(), self.of_all({})
        return self.breaks_reset(*result) if self.breaks_reset else result

    def step(self, actions):
        self.round += 1
        over = self.round == 3
        result = self.seen(), self.of_all(1.0), self.of_all(over), self.of_all(False), self.of_all({})
        if over:
            self.agents = []
        return self.breaks(*result) if self.breaks else result

    def of_all(self, value):
        return {agent: value.copy() if isinstance(value, dict) else value for agent in AGENTS}

    def seen(self):
        return {agent: np.full(1, self.round, np.float32) for agent in AGENTS}


class Turns(AECEnv):
    """They take turns, three each; `breaks` is called with the game behind each reset."""

    def __init__(self, breaks=None):
        super().__init__()
        self.metadata = {"name": "turns"}
        self.possible_agents, self.breaks = list(AGENTS), breaks

    observation_space, action_space = Parallel.observation_space, Parallel.action_space

    def observe(self, agent):
        return np.zeros(1, np.float32)

    def reset(self, seed=None, options=None):
        self.agents, self.agent_selection, self.round = list(AGENTS), "left", 0
        self.rewards, self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0), dict.fromkeys(AGENTS, 0.0)
        self.terminations, self.truncations = dict.fromkeys(AGENTS, False), dict.fromkeys(AGENTS, False)
        self.infos = {agent: {} for agent in AGENTS}
        if self.breaks:
            self.breaks(self)

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self.rewards[agent] = 1.0
        self.round += 1
        if self.round == 6:
            self.terminations = dict.fromkeys(AGENTS, True)
        self.agent_selection = AGENTS[self.round % 2]
        self._accumulate_rewards()


def play(game):
    env = PettingZooEnv(as_turns(game))
    env.reset(seed=0)
    paid, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, _ = env.step({"action": 0})
        paid, over = paid + reward, terminated or truncated
    return paid


def without(by_agent):
    return {"left": by_agent["left"]}


@pytest.mark.parametrize("game", [Parallel(), Turns()])
def test_games_without_mistakes_are_played(game):
    assert play(game) == 6.0


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (lambda seen, paid, over, cut, infos: (without(seen), paid, over, cut, infos), ["observations", "right"]),
        (lambda seen, paid, over, cut, infos: (seen, without(paid), over, cut, infos), ["rewards", "those of left"]),
        (lambda seen, paid, over, cut, infos: (seen, paid, without(over), cut, infos), ["terminations", "right"]),
        (lambda seen, paid, over, cut, infos: (seen, paid, over, {}, infos), ["truncations", "those of nobody"]),
        (lambda seen, paid, over, cut, infos: (seen, paid, over, cut, {}), ["infos", "left, right"]),
        (lambda seen, paid, over, cut, infos: (seen, paid, over, infos), ["its step", "tuple of 5", "got 4"]),
        (
            lambda seen, paid, over, cut, infos: (seen, dict.fromkeys(paid), over, cut, infos),
            ["reward of left", "None"],
        ),
    ],
)
def test_what_a_step_of_a_parallel_game_lacks_is_named(breaks, words):
    with pytest.raises(EnvError) as caught:
        play(Parallel(breaks))
    for word in words:
        assert word in caught.value.render()


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (lambda seen, infos: seen, ["observations", "no dict"]),
        (lambda seen, infos: (seen, infos, 0), ["its reset", "tuple of 2"]),
        (lambda seen, infos: (without(seen), infos), ["observations", "no entry for right"]),
    ],
)
def test_what_a_reset_of_a_parallel_game_lacks_is_named(breaks, words):
    with pytest.raises(EnvError) as caught:
        play(Parallel(breaks_reset=breaks))
    for word in words:
        assert word in caught.value.render()


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (lambda game: delattr(game, "_cumulative_rewards"), ["no _cumulative_rewards", "reset"]),
        (lambda game: delattr(game, "agent_selection"), ["no agent_selection"]),
        (lambda game: delattr(game, "agents"), ["no agents"]),
        (lambda game: game._cumulative_rewards.pop("right"), ["_cumulative_rewards", "no entry for right"]),
        (lambda game: game.infos.clear(), ["infos", "no entry for left, right"]),
        (lambda game: setattr(game, "agent_selection", "nobody"), ["'nobody'", "left, right"]),
    ],
)
def test_what_a_game_of_turns_lacks_is_named(breaks, words):
    with pytest.raises(EnvError) as caught:
        play(Turns(breaks))
    for word in words:
        assert word in caught.value.render()


def test_an_error_of_the_game_itself_stays_what_it_is():
    def fall_over(game):
        game.infos = {}
        return game.nothing

    with pytest.raises(AttributeError, match="nothing"):
        play(Turns(fall_over))
