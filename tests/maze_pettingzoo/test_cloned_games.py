"""Planners branch off a game: a clone goes on as the original, which stays where it is."""

import threading

import numpy as np
import pytest
from mpe2 import simple_spread_v3
from pettingzoo.classic import tictactoe_v3

from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import EnvError
from maze_pettingzoo.env import make_env
from maze_pettingzoo.options import PettingZooOptions
from maze_runtime.context import RunContext
from maze_runtime.rollout.heuristic import Heuristic
from maze_runtime.rollout.random_policy import RandomPolicy

FOUR = "pettingzoo.classic.connect_four_v3"
GAMES = {
    "four": {"id": FOUR},
    "four against random": {"id": FOUR, "random_agents": ("player_1",)},
    "tic-tac-toe": {"id": tictactoe_v3.env, "rewards": "team"},
    "spread": {"id": "mpe2.simple_spread_v3", "rewards": "team", "kwargs": {"max_cycles": 9}},
    "spread at once": {"id": simple_spread_v3.parallel_env, "kwargs": {"max_cycles": 9}},
}


def build(**options):
    return make_env(PettingZooOptions(**options))


def played_on(env, observation, seed, n_steps=9):
    """What happens in the next steps, decided by a random policy that sees what the environment shows."""
    policy, happened = RandomPolicy(PolicyContext(spaces=env.structured_spaces, seed=seed)), []
    for _ in range(n_steps):
        key, agent = env.actor_id()
        rows = {name: np.asarray(value)[None] for name, value in observation.items()}
        group = Group(env_index=np.zeros(1, np.int64), agent_id=np.array([agent]), observation=rows)
        action = {head: value[0] for head, value in policy.act(key, group).items()}
        observation, reward, terminated, truncated, _ = env.step(action)
        shown = {name: np.array(value).tolist() for name, value in observation.items()}
        happened.append((key, agent, shown, reward, terminated, truncated, env.is_flat_step_end()))
        if terminated or truncated:
            break
    return observation, happened


@pytest.mark.parametrize("game", GAMES)
def test_a_clone_of_a_game_goes_on_as_the_original(game):
    env, twin = build(**GAMES[game]), build(**GAMES[game])
    observation, _ = played_on(env, env.reset(seed=3)[0], seed=0, n_steps=2)
    twin.reset(seed=4)
    twin.clone_from(env)
    _, first = played_on(twin, observation, seed=1)
    twin.clone_from(env)
    _, second = played_on(twin, observation, seed=1)
    _, original = played_on(env, observation, seed=1)
    assert first == second == original
    own, theirs = twin.get_actor_rewards(), env.get_actor_rewards()
    assert (own is None and theirs is None) or own.tolist() == theirs.tolist()
    twin.reset(seed=5)
    env.close()


def test_a_game_that_cannot_be_copied_says_so():
    env, twin = build(id=FOUR), build(id=FOUR)
    env.reset(seed=0)
    env.game.unwrapped.lock = threading.Lock()
    with pytest.raises(EnvError, match="cannot be cloned") as raised:
        twin.clone_from(env)
    assert "lock" in raised.value.received
    assert raised.value.owner.endswith("connect_four.raw_env")
    assert "__deepcopy__" in raised.value.help


class Wins(Heuristic):
    """Takes a winning move if there is one, and looks for it in clones."""

    def act_one(self, observation, moment):
        allowed = np.flatnonzero(observation["action_mask"])
        return max(allowed, key=lambda move: self.clone(moment).step({"action": move})[1])


def test_a_planner_beats_a_random_player(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = {"use": "pettingzoo", "id": FOUR, "random_agents": ["player_1"]}
    result = RunContext(env=env, silent=True).rollout(n_episodes=5, policy=f"{__name__}:Wins")
    assert sum(episode.total_reward for episode in result.episodes) >= 3
