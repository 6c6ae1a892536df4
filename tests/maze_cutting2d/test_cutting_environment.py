"""The cutting-stock environment: contract, rules, accounting, rewards, masks, and what an experiment can choose."""

import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import maze_cutting2d.plugin
import maze_kernel.builtin
from maze_cutting2d.env import make_env
from maze_cutting2d.options import CuttingOptions
from maze_cutting2d.states import CuttingState
from maze_kernel.config import describe
from maze_kernel.config.load import select
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_runtime.env.reward import RewardAggregator
from maze_testing.envs import check_env

VERSIONS = ("flat", "structured", "masked")
README = (Path(__file__).parents[2] / "plugins/maze_cutting2d/README.md").read_text()


@pytest.fixture(scope="module")
def kernel():
    return Kernel.of(maze_cutting2d.plugin, maze_kernel.builtin)


def cut(env, piece, *, rotate=0, order=0):
    """One whole decision in any version: (reward, truncated)."""
    if len(env.structured_spaces.policy_keys) == 1:
        return env.step({"piece_idx": piece, "cut_rotation": rotate, "cut_order": order})[1:4:2]
    first = env.step({"piece_idx": piece})[1]
    _, second, _, truncated, _ = env.step({"cut_rotation": rotate, "cut_order": order})
    return first + second, truncated


def counts(env):
    return {record.event.__name__: record.attributes for record in env.get_step_events()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("demand", ["static", "alternating", "random"])
@pytest.mark.parametrize("scaled", [False, True])
def test_every_version_keeps_the_contract(version, demand, scaled):
    options = CuttingOptions(
        version=version,
        demand=demand,
        max_pieces_in_inventory=6,
        max_episode_steps=25,
        observation={"use": "inventory", "scaled": scaled},
    )
    check_env(partial(make_env, options), n_steps=100)


@pytest.mark.parametrize("version", VERSIONS)
def test_two_guillotine_cuts_leave_two_pieces(version):
    options = CuttingOptions(version=version, demand="static", orders=((30, 15),))
    for order, rotate, left in (
        (0, 0, [(70, 100), (30, 85)]),
        (1, 0, [(100, 85), (70, 15)]),
        (0, 1, [(85, 100), (15, 70)]),
        (1, 1, [(100, 70), (85, 30)]),
    ):
        env = make_env(options)
        env.reset(seed=1)
        cut(env, 0, rotate=rotate, order=order)
        assert list(env.get_maze_state().inventory) == [*left, (100, 100)]


def test_a_side_that_is_used_up_leaves_nothing():
    env = make_env(CuttingOptions(demand="static", orders=((100, 40),)))
    env.reset()
    cut(env, 0)
    assert env.get_maze_state().inventory == ((100, 60), (100, 100))
    cut(env, 0)
    assert env.get_maze_state().inventory == ((100, 100), (100, 20))


@pytest.mark.parametrize("version", VERSIONS)
def test_rewards_and_events_of_good_and_bad_actions(version):
    env = make_env(CuttingOptions(version=version, orders=((30, 90),), demand="static"))
    env.reset()
    assert cut(env, 0)[0] == -1.0
    assert counts(env).keys() == {"piece_replenished", "valid_cut", "pieces_in_inventory"}
    assert counts(env)["pieces_in_inventory"] == {"value": 3}
    assert cut(env, 1)[0] == -2.0
    assert counts(env)["invalid_cut"]["piece_to_cut"] == (30, 10)
    assert cut(env, 199)[0] == -2.0
    assert "invalid_piece_selected" in counts(env)
    assert cut(env, 0)[0] == 0.0
    assert counts(env)["valid_cut"]["piece_to_cut"] == (70, 100)


def test_a_full_inventory_loses_its_oldest_piece_but_never_the_raw_one():
    env = make_env(CuttingOptions(max_pieces_in_inventory=2, orders=((30, 15),), demand="static"))
    env.reset()
    cut(env, 0)
    assert env.get_maze_state().inventory == ((30, 85), (100, 100))
    assert counts(env)["piece_discarded"] == {"piece": (70, 100)}
    for _ in range(4):
        cut(env, 0)
        assert (100, 100) in env.get_maze_state().inventory


def test_demand_is_static_alternating_or_random_by_seed():
    def orders(seed=3, **options):
        env = make_env(CuttingOptions(**options))
        observation, _ = env.reset(seed=seed)
        nothing = {"piece_idx": 150, "cut_rotation": 0, "cut_order": 0}
        seen = [observation, *(env.step(nothing)[0] for _ in range(30))]
        return [observation["ordered_piece"].tolist() for observation in seen]

    assert orders(demand="static") == [[60.0, 33.0]] * 31
    assert orders(demand="alternating")[:3] == [[60.0, 33.0], [40.0, 33.0], [60.0, 33.0]]
    drawn = np.array(orders(demand="random", random_sides=(5, 9)))
    assert set(np.unique(drawn)) == {5.0, 6.0, 7.0, 8.0, 9.0}
    assert orders(demand="random") == orders(demand="random") != orders(seed=4, demand="random")


def test_masks_allow_exactly_what_succeeds():
    env = make_env(CuttingOptions(version="masked", demand="random", random_sides=(20, 70), max_pieces_in_inventory=12))
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=5)
    for _ in range(150):
        state: CuttingState = env.get_maze_state()
        x, y = state.current_demand
        expected = [(x <= a and y <= b) or (y <= a and x <= b) for a, b in state.inventory]
        assert observation["piece_idx_mask"].tolist() == expected + [0] * (12 - len(expected))
        piece = int(rng.choice(np.flatnonzero(observation["piece_idx_mask"])))
        observation, *_ = env.step({"piece_idx": piece})
        a, b = state.inventory[piece]
        assert observation["cut_rotation_mask"].tolist() == [x <= a and y <= b, y <= a and x <= b]
        assert observation["selected_piece"].tolist() == [a, b]
        rotate = int(rng.choice(np.flatnonzero(observation["cut_rotation_mask"])))
        observation, *_ = env.step({"cut_rotation": rotate, "cut_order": int(rng.integers(2))})
        assert "valid_cut" in counts(env)


@pytest.mark.parametrize(
    ("slot", "reward", "shares"),
    [(2, -1.0, [0.0, -1.0]), (1, -2.0, [0.0, -2.0]), (5, -2.0, [-2.0, 0.0])],
    ids=["raw piece", "order does not fit", "empty slot"],
)
def test_the_cut_is_paid_unless_the_slot_was_empty(slot, reward, shares):
    env = make_env(CuttingOptions(version="structured", demand="static", orders=((80, 60),)))
    env.reset()
    cut(env, 0)
    assert env.get_maze_state().inventory == ((20, 100), (80, 40), (100, 100))
    assert cut(env, slot)[0] == reward
    assert env.get_actor_rewards().tolist() == shares


def test_scaled_observations_lie_between_zero_and_one():
    env = make_env(CuttingOptions(observation={"use": "inventory", "scaled": True}, raw_piece_size=(80, 50)))
    observation, _ = env.reset()
    assert observation["inventory"][:2].tolist() == [[1.0, 0.625], [0.0, 0.0]]
    assert observation["ordered_piece"].tolist() == pytest.approx([0.75, 33 / 80])
    assert observation["inventory_size"].tolist() == pytest.approx([1 / 200])


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_actions_come_back(version):
    env = make_env(CuttingOptions(version=version))
    env.reset()
    rng = np.random.default_rng(1)
    for _ in range(12):
        key = env.actor_id().step_key
        action = {head: int(rng.integers(space.n)) for head, space in env.structured_spaces.action[key].items()}
        state = env.get_maze_state()
        env.step(action)
        assert env.to_spaces(key, state, env.get_maze_action())[1] == action


@pytest.mark.parametrize("version", VERSIONS)
def test_a_clone_plays_on_alike(version):
    options = CuttingOptions(version=version, demand="random")
    env, clone = make_env(options), make_env(options)
    env.reset(seed=1)
    clone.reset(seed=2)
    for _ in range(5):
        cut(env, 0)
    if version != "flat":
        env.step({"piece_idx": 0})
        assert clone.actor_id() != env.actor_id()
    clone.clone_from(env)
    assert clone.get_maze_state() == env.get_maze_state()
    for one in (env, clone):
        if version != "flat":
            one.step({"cut_rotation": 0, "cut_order": 1})
    for _ in range(5):
        assert cut(env, 0) == cut(clone, 0)
        assert clone.get_maze_state() == env.get_maze_state()


class LeftoverReward(RewardAggregator):
    """A reward of ones own, by import path."""

    def __init__(self, *, weight: float):
        super().__init__()
        self.weight = weight

    def get_interfaces(self):
        return ()

    def summarize_reward(self, maze_state):
        return self.weight * len(maze_state.inventory)


def test_an_experiment_chooses_reward_aggregators_and_their_options(kernel, monkeypatch):
    def first_reward(reward):
        selection = select(kernel, "env", {"use": "cutting-2d", "reward": reward})
        env = kernel.catalog.build(selection)
        env.reset()
        return cut(env, 0)[0]

    monkeypatch.syspath_prepend(Path(__file__).parent)
    assert first_reward({"use": "raw-piece-usage", "scale": 0.1}) == -0.1
    assert first_reward({"use": "default", "raw_piece_usage_penalty": -3.0}) == -3.0
    assert first_reward({"use": f"{Path(__file__).stem}:LeftoverReward", "weight": 2.0}) == 6.0
    with pytest.raises(RequestError, match=r"no option 'scale'(.|\n)*raw_piece_usage_penalty"):
        first_reward({"use": "default", "scale": 1.0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"orders": ((101, 5),)}, "does not fit"),
        ({"orders": ()}, "at least one order"),
        ({"demand": "random", "random_sides": (9, 101)}, "does not fit"),
        ({"demand": "random", "random_sides": (9, 3)}, "smallest and the largest"),
    ],
)
def test_problems_without_a_solution_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CuttingOptions(**options)


def test_frames_show_the_cut(kernel):
    for version in VERSIONS:
        env = make_env(CuttingOptions(version=version, render_mode="rgb_array"))
        env.reset()
        before = env.render()
        cut(env, 0, order=1)
        after = env.render()
        assert before.shape == after.shape == (400, 800, 3)
        assert before.dtype == np.uint8
        assert (before != after).any()


def test_a_policy_for_another_environment_is_refused(kernel):
    from maze_kernel.errors import SpaceError
    from maze_runtime.env.flat import flat_spaces

    spaces = make_env().structured_spaces
    other = flat_spaces(type(spaces.observation["0"])({}), spaces.action["0"])
    with pytest.raises(SpaceError, match="cutting-2d"):
        kernel.catalog.build(select(kernel, "policy", "cutting-2d-greedy"), PolicyContext(spaces=other))


def test_the_readme_lists_every_component_and_option(kernel):
    for kind, name in (("env", "cutting-2d"), ("policy", "cutting-2d-greedy")):
        description = describe(kernel, kind, name)
        assert f"### `{name}`\n\n{description.summary}" in README
        for row in description.options:
            assert f"| `{row.name}` | {row.type.replace('|', 'or')} | `{row.default}` | {row.meaning} |" in README
    (block,) = README.split("```toml\n")[1:]
    assert kernel.catalog.build(select(kernel, "env", tomllib.loads(block.partition("```")[0])["env"]))
