"""Wrappers of games whose agents are paid each for itself: what of them holds there, and what is refused."""

import sys
from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from pettingzoo import ParallelEnv
from typer.testing import CliRunner

from maze_kernel.cli.app import make_app
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.errors import MazeWarning
from maze_pettingzoo.env import make_env
from maze_pettingzoo.options import PettingZooOptions, PettingZooVectorOptions
from maze_pettingzoo.vector_games import VectorGames
from maze_runtime.env.transformed import TransformedEnv
from maze_runtime.rollout import episodes
from maze_runtime.rollout.cut_env import CutEnv
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.vector_transform import TransformedVectorEnv
from maze_wrappers.options import ReturnNormalizationOptions, RewardClippingOptions
from maze_wrappers.return_normalization import ReturnNormalization
from maze_wrappers.reward_clipping import RewardClipping

HERE = "games_of_opponents_of_tests"
N_ROUNDS, COST = 5, 0.01
PLAYERS = ["player_0", "player_1"]


class Duels:
    """A batch of duels: five rounds that cost both, and at the end one gets 1 from the other."""

    possible_agents = PLAYERS
    metadata: ClassVar = {"autoreset_mode": AutoresetMode.DISABLED}

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def observation_space(self, agent):
        return spaces.Box(0, N_ROUNDS, (1,), np.float64)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        if options is None:
            self.rng, self.round = np.random.default_rng(seed), np.zeros(self.num_envs)
        else:
            self.round[options["reset_mask"]] = 0
        return self.seen(), {player: {} for player in PLAYERS}

    def step(self, actions):
        self.round += 1
        over = self.round == N_ROUNDS
        won = over * self.rng.choice([-1.0, 1.0], self.num_envs)
        paid = {"player_0": won - COST, "player_1": -won - COST}
        return self.seen(), paid, over, np.zeros_like(over), {player: {} for player in PLAYERS}

    def seen(self):
        return {player: self.round[:, None].copy() for player in PLAYERS}


class Duel(ParallelEnv):
    """One of them."""

    metadata: ClassVar = {"name": "duel"}
    render_mode = None
    possible_agents = PLAYERS
    observation_space, action_space = Duels.observation_space, Duels.action_space

    def __init__(self):
        self.batch = Duels(1)

    def reset(self, seed=None, options=None):
        self.agents = PLAYERS[:]
        seen, infos = self.batch.reset(seed=seed)
        return {player: rows[0] for player, rows in seen.items()}, infos

    def step(self, actions):
        *by_player, over, cut, infos = self.batch.step(actions)
        seen, paid = ({player: rows[0] for player, rows in values.items()} for values in by_player)
        if over[0]:
            self.agents = []
        ends, cuts = (dict.fromkeys(PLAYERS, bool(flags[0])) for flags in (over, cut))
        return seen, paid, ends, cuts, infos


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])


def duel(rewards="own"):
    return make_env(PettingZooOptions(id=f"{HERE}:Duel", rewards=rewards))


BATCHES = {
    "one by one": lambda: SequentialVectorEnv([duel, duel, duel]),
    "as one": lambda: VectorGames(Duels(3), PettingZooVectorOptions(entry="")),
}
# A decision with k rounds to come, its own with them, returns ±1 − k COST: as often 1 as −1, whoever wins.
SPREAD = np.sqrt(1.0 + COST**2 * np.var(range(N_ROUNDS)) + 1e-8)


@pytest.mark.parametrize("games", BATCHES)
def test_returns_are_divided_by_the_spread_of_those_of_the_agents(games):
    batch = BATCHES[games]()
    transform = ReturnNormalization(ReturnNormalizationOptions())
    envs = TransformedVectorEnv(batch, transform, training=True)
    envs.reset([[1], [2], [3]])
    for turn in range(1, 3 * len(PLAYERS) * N_ROUNDS + 1):
        tick = envs.step({"player": {"action": np.zeros(3, np.int64)}})
        assert bool(tick.actor_rewards) == (turn % (len(PLAYERS) * N_ROUNDS) == 0)
        for rewards in tick.actor_rewards.values():
            returns = np.cumsum(rewards[::-1])[::-1]
            assert abs(returns[-1]) * SPREAD == pytest.approx(1.0, abs=COST + 1e-6)
    assert transform.reward(np.float64(1.0)) == pytest.approx(1.0 / SPREAD, rel=1e-6)


def test_of_one_game_likewise():
    transform = ReturnNormalization(ReturnNormalizationOptions())
    env = TransformedEnv(duel(), transform)
    env.reset(seed=1)
    while not env.step({"action": 0})[2]:
        assert transform.reward(np.float64(1.0)) == 1.0
    returns = np.cumsum(env.get_actor_rewards()[::-1])[::-1]
    assert np.var(returns) == pytest.approx(1.0, rel=1e-5)


CLIPPED = {
    "reward-clipping": lambda: RewardClipping(RewardClippingOptions(min_val=-0.005)),
    "return-normalization": lambda: ReturnNormalization(  # divides by 10⁶, whatever the spread
        ReturnNormalizationOptions(epsilon=1e12, clip_range=(-0.005e-6, 1.0))
    ),
}


@pytest.mark.parametrize("wrapper", CLIPPED)
@pytest.mark.parametrize("games", [*BATCHES, "single"])
def test_what_an_agent_is_paid_is_clipped_and_no_differences(games, wrapper):
    transform = CLIPPED[wrapper]()
    if games == "single":
        env = TransformedEnv(duel(), transform)
        env.reset(seed=1)
        while not env.step({"action": 0})[2]:
            pass
        rewards = [env.get_actor_rewards()]
    else:
        envs = TransformedVectorEnv(BATCHES[games](), transform, training=True)
        envs.reset([[1], [2], [3]])
        rewards = []
        while len(rewards) < 9:  # three games of each
            rewards += envs.step({"player": {"action": np.zeros(3, np.int64)}}).actor_rewards.values()
    scale = 1.0 if wrapper == "reward-clipping" else transform.reward(np.float64(0.001)) / 0.001
    rounds = np.arange(N_ROUNDS, 0, -1)
    won, lost = 1.0 - COST - 0.005 * (rounds - 1), -0.005 * rounds
    for each in rewards:
        returns = np.cumsum(each[::-1].astype(np.float64))[::-1].reshape(N_ROUNDS, 2) / scale
        winner = int(returns[-1, 1] > 0)
        np.testing.assert_allclose(returns[:, winner], won, atol=1e-6)
        np.testing.assert_allclose(returns[:, 1 - winner], lost, atol=1e-6)


EXPERIMENT = f"""name = "duel"

[env]
use = "pettingzoo"
id = "{HERE}:Duel"

[trainer]
use = "ppo"
"""
COUNTING = {
    "time-limit": "max_episode_steps = 2",
    "step-skip": "n_steps = 2",
    "random-reset": "max_skip = 2",
    "first-actions": "actions = [{ action = 1 }]",
    "life-loss": "",
}


@pytest.mark.parametrize("wrapper", COUNTING)
def test_wrappers_that_count_steps_are_refused_at_their_place(wrapper, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "duel.toml").write_text(f'{EXPERIMENT}[[wrappers]]\nuse = "{wrapper}"\n{COUNTING[wrapper]}\n')
    refused = CliRunner().invoke(make_app(), ["rollout", "duel.toml", "--policy", "random", "--episodes", "1"])
    assert refused.exit_code == 2
    assert f"--> duel.toml:{EXPERIMENT.count(chr(10)) + 1}:" in refused.output
    for words in ("a whole game is one step", f"owner: maze-wrappers: {wrapper}", "max_cycles", 'rewards = "team"'):
        assert words in refused.output


def played(batch, **options):
    policy = RandomPolicy(PolicyContext(spaces=batch.structured_spaces, seed=0))
    return episodes.run_episodes(batch, policy, [1, 2, 3], deterministic=False, **options)


@pytest.mark.parametrize("games", BATCHES)
def test_rollouts_are_cut_after_rounds(games):
    results = played(BATCHES[games](), max_steps=3)
    assert [(result.truncated, result.terminated, result.length) for result in results] == [(False, False, 1)] * 3
    # One by one, whoever decides last of a round is paid when its turn comes again.
    assert all(result.total_reward == pytest.approx(-2 * COST * 3, abs=COST + 1e-6) for result in results)
    assert all(result.terminated for result in played(BATCHES[games](), max_steps=N_ROUNDS))


def test_a_game_that_is_cut_has_divided_its_rewards():
    env = CutEnv(duel(), max_steps=2)
    for _ in range(2):
        env.reset(seed=1)
        ends = [(env.step({"action": 0})[3], env.is_flat_step_end()) for _ in range(4)]
        assert ends == [(False, False)] * 3 + [(True, True)]
        assert env.was_cut
        assert len(env.get_actor_rewards()) == 4


@pytest.mark.parametrize(("rewards", "way"), [("own", "limit of its own"), ("team", '"time-limit"')])
def test_who_waits_for_the_end_of_a_game_is_told_what_helps(rewards, way, monkeypatch):
    monkeypatch.setattr(episodes, "LONG_EPISODE", 5)
    with pytest.warns(MazeWarning, match=way):
        played(SequentialVectorEnv([lambda: duel(rewards)] * 3))
