"""The structured test environments keep the contract, and playing them well gives the return they promise."""

import functools

import pytest

from maze_testing.envs import check_env
from maze_testing.structured_environments import ChangingTeam, DoorAndKey, Hierarchy, Pair

MAKERS = {
    "door": (DoorAndKey, 8),
    "divided": (functools.partial(DoorAndKey, divided=True), 8),
    "pair": (Pair, 16),
    "unlike pair": (functools.partial(Pair, alike=False), 16),
    "team": (ChangingTeam, ChangingTeam().best_return),
    "hierarchy": (Hierarchy, 10),
}


@pytest.mark.parametrize("name", MAKERS)
def test_contract(name):
    check_env(MAKERS[name][0])


@pytest.mark.parametrize("name", MAKERS)
def test_the_best_return_can_be_played(name):
    make, best = MAKERS[name]
    env = make()
    observation, _ = env.reset(seed=3)
    total, ended = 0.0, False
    while not ended:
        actor, shown = env.actor_id(), int(observation["shown"].argmax())
        moves_on = actor.step_key in ("key", "worker") or (name == "unlike pair" and actor.agent_id == 1)
        observation, reward, terminated, truncated, _ = env.step({"choice": (shown + moves_on) % 3})
        total, ended = total + reward, terminated or truncated
    assert total == best
