"""The greedy policy reaches the optimum, and every way of counting raw pieces agrees."""

from functools import partial

import pytest

from maze_cutting2d.env import make_env
from maze_cutting2d.greedy import GreedyPolicy
from maze_cutting2d.options import CuttingOptions
from maze_kernel.contracts.model import PolicyContext
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.rollout.episodes import run_episodes
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv

N_STEPS, RAW_AREA = 180, 100 * 100
CASES = [(version, scaled) for version in ("flat", "structured", "masked") for scaled in (False, True)]


def play(options, seeds):
    """Results and epoch statistics of the greedy policy."""
    envs = SequentialVectorEnv([partial(make_env, options)] * len(seeds))
    policy = GreedyPolicy(PolicyContext(spaces=envs.structured_spaces))
    results = run_episodes(envs, policy, seeds, deterministic=True)
    epoch = EpochAggregator()
    for env in envs.envs:
        epoch.add_episodes(env.drain_statistics())
    return results, epoch.reduce()


def test_no_policy_can_use_fewer_than_thirty():
    area = sum(x * y for x, y in ((60, 33), (40, 33))) * N_STEPS // 2
    assert -(-area // RAW_AREA) == 30


@pytest.mark.parametrize(("version", "scaled"), CASES)
def test_on_the_default_demand_it_is_optimal_in_every_version(version, scaled):
    (result,), statistics = play(
        CuttingOptions(version=version, observation={"use": "inventory", "scaled": scaled}), [1]
    )
    assert (result.total_reward, result.length) == (-30.0, N_STEPS)
    assert (result.terminated, result.truncated) == (False, True)
    assert statistics["CuttingEvents/valid_cut/mean_episode_total"] == N_STEPS
    # 30 are used, and the one that replaces the last of them makes 31.
    assert statistics["InventoryEvents/piece_replenished/mean_episode_total"] == 31
    assert statistics["BaseEnvEvents/kpi/mean/raw_piece_usage_per_step"] == 31 / N_STEPS
    assert statistics["CuttingEvents/invalid_cut/mean_episode_total"] == 0


def test_on_random_demand_rewards_events_and_area_agree():
    options = CuttingOptions(demand="random", random_sides=(10, 60), max_episode_steps=100)
    results, statistics = play(options, [1, 2, 3])
    used = [-result.total_reward for result in results]
    assert statistics["InventoryEvents/piece_replenished/mean_episode_total"] == pytest.approx(sum(used) / 3 + 1)
    assert statistics["CuttingEvents/valid_cut/mean_episode_total"] == 100
    for raw_pieces in used:
        assert 100 * 10 * 10 / RAW_AREA < raw_pieces < 100


def test_pieces_are_neither_lost_nor_made():
    """Inventory + orders cut + pieces thrown away = raw pieces that came in, by area, after every step."""
    env = make_env(CuttingOptions(demand="random", random_sides=(10, 60), max_pieces_in_inventory=8))
    policy = GreedyPolicy(PolicyContext(spaces=env.structured_spaces))
    observation, _ = env.reset(seed=4)
    came_in, delivered, thrown_away = RAW_AREA, 0, 0
    for step in range(N_STEPS):
        action = {head: int(value[0]) for head, value in policy.act("0", _group(observation)).items()}
        observation, *_ = env.step(action)
        for record in env.get_step_events():
            name, attributes = record.event.__name__, record.attributes
            # The first step also reports the raw piece that `reset` put in.
            came_in += RAW_AREA * (name == "piece_replenished")
            if name == "valid_cut":
                delivered += attributes["current_demand"][0] * attributes["current_demand"][1]
            if name == "piece_discarded":
                thrown_away += attributes["piece"][0] * attributes["piece"][1]
        if step == 0:
            came_in -= RAW_AREA
        stock = sum(x * y for x, y in env.get_maze_state().inventory)
        assert stock + delivered + thrown_away == came_in
    assert thrown_away > 0


def _group(observation):
    import numpy as np

    from maze_kernel.contracts.vector import Group

    rows = {name: value[None] for name, value in observation.items()}
    return Group(env_index=np.zeros(1, np.int64), agent_id=np.zeros(1, np.int64), observation=rows)
