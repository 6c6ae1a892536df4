"""A batch of games by import path: stepped as one, like the same games one by one, and what is refused."""

import sys
import warnings

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from mpe2 import simple_spread_v3
from pettingzoo.test import parallel_api_test

from maze_kernel.config import experiment_from_mapping
from maze_kernel.contracts.env import ActorID
from maze_kernel.errors import EnvError, MazeError, RequestError
from maze_pettingzoo.batch_of_games import FirstGame, make_env
from maze_pettingzoo.credit import Ledger, own_rewards
from maze_pettingzoo.options import PettingZooVectorOptions
from maze_pettingzoo.vector_games import VectorGames, make_vector_env
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.run.assembly import Assembly
from maze_testing.envs import check_env

HERE = "batches_of_games_of_tests"
AGENTS = ("left_0", "left_1", "right")


class Sums:
    """Games count rounds up to 3 + their lane; an agent is paid its action, and ten times its number at the end.

    The lane of an episode comes from the seed. `right` may not take action 2 in odd rounds, as infos say.
    """

    def __init__(self, num_envs, mode="DISABLED", by_agent=True, breaks=""):
        self.num_envs, self.mode = num_envs, AutoresetMode[mode]
        self.metadata = {"autoreset_mode": self.mode}
        self.possible_agents = list(AGENTS)
        self.by_agent, self.breaks, self.calls = by_agent, breaks, 0
        self.round = np.zeros(num_envs, np.int64)
        self.lane = np.zeros(num_envs, np.int64)
        self.rng = np.random.default_rng(0)

    def observation_space(self, agent):
        return spaces.Dict(round=spaces.Box(0, 99, (1,), np.float64), lane=spaces.Discrete(3))

    def action_space(self, agent):
        return spaces.Discrete(3, start=1)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        everywhere = np.ones(self.num_envs, bool)
        self.begin(everywhere if self.breaks == "deaf" else (options or {}).get("reset_mask", everywhere))
        return self.seen(), self.infos()

    def begin(self, rows):
        self.round[rows] = 0
        self.lane[rows] = self.rng.integers(0, 3, int(rows.sum()))

    def step(self, actions):
        assert all(1 <= actions[agent].min() <= actions[agent].max() <= 3 for agent in AGENTS)
        self.calls += 1
        if self.breaks == "raises":
            raise ValueError("the sea is rough")
        self.round += 1
        over = self.round >= 3 + self.lane
        cut = over & (self.lane == 2)
        rewards = {agent: actions[agent] + 10.0 * index * over for index, agent in enumerate(AGENTS)}
        last = self.seen()
        infos = {}
        if self.mode is AutoresetMode.SAME_STEP:
            self.begin(over)
            infos = self.infos()
            for agent in AGENTS if self.breaks != "forgets" else ():
                infos[agent]["final_obs"] = last[agent]
        ended = over & ~cut
        if self.breaks == "leaves":
            one = {agent: over | (agent == "right") for agent in AGENTS}
            return self.seen(), rewards, one, dict.fromkeys(AGENTS, cut), self.infos()
        if self.breaks == "values":
            return self.seen(), rewards, cut, {}
        if self.breaks == "unpaid":
            return self.seen(), {"left_0": rewards["left_0"]}, ended, cut, self.infos()
        if self.breaks == "later" and self.calls == 2:
            rewards["right"] = 1.0
        if self.breaks == "sums":
            return self.seen(), {agent: reward.sum() for agent, reward in rewards.items()}, ended, cut, self.infos()
        if self.breaks == "no info":
            return self.seen(), rewards, ended, cut, None
        if self.breaks == "blind":
            return list(self.seen().values()), rewards, ended, cut, self.infos()
        if self.breaks == "flags":
            return self.seen(), rewards, ended[:1], cut, self.infos()
        if self.by_agent is not False:
            cut = dict.fromkeys(AGENTS, cut)
        if self.by_agent is True:
            ended = dict.fromkeys(AGENTS, ended)
        return self.seen(), rewards, ended, cut, infos or self.infos()

    def seen(self):
        wide = 2 if self.breaks == "shape" or (self.breaks == "wide" and self.calls == 2) else 1
        return {
            agent: {"round": np.repeat(self.round[:, None], wide, 1).astype(float), "lane": self.lane.copy()}
            for agent in AGENTS
        }

    def infos(self):
        masks = np.ones((self.num_envs, 3), np.int8)
        masks[self.round % 2 == 1, 2] = 0
        return {"right": {"action_mask": masks}, "left_0": {}, "left_1": {}}


def no_batch(num_envs):
    return object()


def other_size(num_envs):
    return Sums(num_envs + 1)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])


def options(name="Sums", rewards="team", policies=None, **kwargs):
    return PettingZooVectorOptions(entry=f"{HERE}:{name}", rewards=rewards, kwargs=kwargs, policies=policies or {})


def choose(groups, rng):
    actions = {}
    for key, group in groups.items():
        allowed = group.observation.get("action_mask", np.ones((len(group.env_index), 3)))
        actions[key] = {"action": np.array([rng.choice(np.flatnonzero(row)) for row in allowed])}
    return actions


def transitions(batch, seed, n_ticks):
    """All that ticks say, with the same actions for the same observations."""
    rng, found = np.random.default_rng(9), []
    tick = batch.reset([[seed]] * batch.n_envs)
    for _ in range(n_ticks):
        ((key, group),) = tick.groups.items()
        before = {name: array.tolist() for name, array in group.observation.items()}
        actions = choose(tick.groups, rng)
        tick = batch.step(actions)
        finals = {
            name: [final.env_index.tolist(), final.agent_id.tolist(), *(v.tolist() for v in final.observation.values())]
            for name, final in tick.final_observation.items()
        }
        flags = [array.tolist() for array in (tick.reward, tick.terminated, tick.truncated, tick.flat_step_end)]
        own = {index: rewards.tolist() for index, rewards in tick.actor_rewards.items()}
        found.append((key, group.agent_id.tolist(), before, actions[key]["action"].tolist(), flags, finals, own))
    return found


@pytest.mark.parametrize("rewards", ["team", "own"])
def test_games_in_one_play_as_games_one_by_one(rewards):
    """A batch of one beside PettingZoo's order of turns: who decides on what, for how much by the episode's end."""
    batch = make_vector_env(1, options(rewards=rewards))
    single = SequentialVectorEnv([lambda: make_env(options(rewards=rewards))])
    one, other = transitions(batch, 5, 60), transitions(single, 5, 60)
    n_ends = 0
    paid = np.zeros(2)
    for ours, theirs in zip(one, other, strict=True):
        if not n_ends:  # later episodes have other seeds one by one
            assert ours[:4] == theirs[:4]
        paid += ours[4][0][0], theirs[4][0][0]
        assert ours[4][3] == theirs[4][3]
        if ours[4][1][0] or ours[4][2][0]:
            assert ours[4][1:3] == theirs[4][1:3]
            assert paid[0] == paid[1]
            assert ours[6] == theirs[6]
            assert bool(ours[6]) == (rewards == "own")
            n_ends += 1
            break
    assert n_ends == 1


@pytest.mark.parametrize("rewards", ["team", "own"])
@pytest.mark.parametrize("by_agent", [True, False, "cut"])
def test_both_ways_to_begin_again_give_the_same_transitions(rewards, by_agent):
    first = make_vector_env(5, options(rewards=rewards, mode="DISABLED", by_agent=by_agent))
    second = make_vector_env(5, options(rewards=rewards, mode="SAME_STEP", by_agent=by_agent))
    found, expected = transitions(first, 3, 90), transitions(second, 3, 90)
    assert [row[:5] + row[6:] for row in found] == [row[:5] + row[6:] for row in expected]
    assert [row[5] for row in found if row[5]] == [row[5] for row in expected if row[5]]
    assert any(row[5] for row in found)


def test_a_round_is_one_call_and_is_paid_with_its_last_decision():
    games = make_vector_env(4, options())
    tick = games.reset([[0]] * 4)
    assert games.structured_spaces.agent_counts == {"left": 2, "right": 1}
    seen = []
    for n in range(6):
        ((key, group),) = tick.groups.items()
        seen.append((key, int(group.agent_id[0])))
        assert group.aligned
        assert ("action_mask" in group.observation) == (key == "right")
        tick = games.step({key: {"action": np.full(4, n % 3)}})
        assert tick.flat_step_end.all() == (n % 3 == 2)
        assert tick.reward.tolist() == [6.0 if n % 3 == 2 else 0.0] * 4
    assert seen == [("left", 0), ("left", 1), ("right", 0)] * 2
    assert games.batch.calls == 2


def test_actions_are_copied_since_a_policy_may_write_the_next_ones_into_the_same_array():
    games = make_vector_env(2, options())
    tick = games.reset([[0]] * 2)
    shared = np.zeros(2, np.int64)
    for n in range(3):
        shared[:] = n
        tick = games.step({next(iter(tick.groups)): {"action": shared}})
    assert tick.reward.tolist() == [6.0, 6.0]


def test_policies_and_final_observations_are_those_of_the_agents():
    games = make_vector_env(3, options(policies={"left_1": "middle"}))
    assert list(games.structured_spaces.action) == ["left", "middle", "right"]
    tick = games.reset([[1]] * 3)
    lanes = games.batch.lane.copy()
    while not tick.final_observation:
        tick = games.step({key: {"action": np.zeros(3, np.int64)} for key in tick.groups})
    final = tick.final_observation["left"]
    assert final.observation["lane"].tolist() == lanes[final.env_index].tolist()
    assert (final.observation["round"][:, 0] == 3 + lanes[final.env_index]).all()
    assert (tick.truncated == (tick.truncated | tick.terminated) & (lanes == 2)).all()


def test_own_rewards_are_those_of_the_ledger():
    paid = np.random.default_rng(1).normal(size=(7, 3))
    ledger = Ledger()
    for row in paid:
        for agent in range(3):
            ledger.decide(str(agent))
        for agent in range(3):
            ledger.pay(str(agent), row[agent])
    np.testing.assert_allclose(own_rewards(paid), ledger.rewards(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["DISABLED", "SAME_STEP"])
@pytest.mark.parametrize("rewards", ["team", "own"])
def test_one_game_alone_conforms(mode, rewards):
    check_env(lambda: make_env(options(rewards=rewards, mode=mode)), n_steps=60)
    parallel_api_test(FirstGame(Sums(1, mode=mode)), num_cycles=30)


def test_training_steps_the_whole_batch():
    data = {
        "name": "x",
        "env": {"use": "pettingzoo-vector", "entry": f"{HERE}:Sums", "rewards": "team"},
        "vector": {"n_envs": 6},
        "trainer": {"use": "ppo", "n_rollout_steps": 30, "batch_size": 60, "n_epochs": 1, "epoch_length": 2},
        "wrappers": [],
    }
    loaded = experiment_from_mapping(data, kernel=None)
    assembly = Assembly(loaded, loaded.kernel)
    batch = assembly.make_vector_env(6)
    inner = batch
    while not isinstance(inner, VectorGames):
        inner = inner.vector_env
    batch.close()
    running = assembly.make_trainer(assembly.trainer_context())
    running.start_segment(0)
    running.train_epoch()
    assert running.env_steps == 2 * 6 * 10


@pytest.mark.parametrize(
    ("name", "more", "error", "words"),
    [
        ("no_batch", {}, EnvError, ["no batch of games", "possible_agents", "gym-vector"]),
        ("other_size", {}, EnvError, ["num_envs = 3", "num_envs = 2"]),
        ("Missing", {}, RequestError, ["Missing", "entry"]),
        ("Sums", {"mode": "NEXT_STEP"}, RequestError, ["autoreset_mode", "DISABLED"]),
        ("Sums", {"policies": {"nobody": "x"}}, RequestError, ["nobody", "left_0"]),
        ("Sums", {"policies": {"left_0": "right"}}, RequestError, ["right", "unlike spaces"]),
    ],
)
def test_what_is_no_batch_of_games_is_refused(name, more, error, words):
    with pytest.raises(error) as caught:
        make_vector_env(2, options(name, **more))
    assert isinstance(caught.value, MazeError)
    for word in words:
        assert word in caught.value.render()


@pytest.mark.parametrize(
    ("breaks", "mode", "words"),
    [
        ("raises", "DISABLED", ["the sea is rough", "seed 4", "step 1"]),
        ("leaves", "DISABLED", ["game 0", "right", 'use = "pettingzoo"']),
        ("flags", "DISABLED", ["flags", "(1,)", "(2,)"]),
        ("values", "DISABLED", ["4 values", "seed 4", "step 1"]),
        ("unpaid", "DISABLED", ["rewards", "those of left_0", "those of left_0, left_1, right"]),
        ("sums", "DISABLED", ["reward of left_0", "shape ()", "shape (2,)"]),
        ("later", "DISABLED", ["reward of right", "shape ()", "shape (2,)", "step 2"]),
        ("wide", "DISABLED", ["left_0's batched observation 'round'", "(2, 2)", "(2, 1)", "step 2"]),
        ("no info", "DISABLED", ["info", "not a dict"]),
        ("blind", "DISABLED", ["observations", "a list"]),
        ("forgets", "SAME_STEP", ["final_obs", "left_0", "DISABLED"]),
    ],
)
def test_a_step_that_breaks_the_contract_is_named(breaks, mode, words):
    games = make_vector_env(2, options(breaks=breaks, mode=mode))
    with pytest.raises(EnvError) as caught:
        transitions(games, 4, 30)
    for word in words:
        assert word in caught.value.render()


@pytest.mark.parametrize(
    ("breaks", "words"),
    [("values", "4 values"), ("unpaid", "those of left_0"), ("sums", "shape ()"), ("blind", "a list")],
)
def test_a_step_of_one_game_alone_that_breaks_the_contract_is_named(breaks, words):
    game = FirstGame(Sums(1, breaks=breaks))
    game.reset(seed=4)
    with pytest.raises(EnvError) as caught:
        game.step(dict.fromkeys(AGENTS, 1))
    assert words in caught.value.render()


def test_an_observation_of_another_shape_is_named():
    with pytest.raises(EnvError) as caught:
        make_vector_env(2, options(breaks="shape")).reset([[0]] * 2)
    assert "left_0" in caught.value.render()
    assert "(2, 2)" in caught.value.render()


def test_a_batch_that_ignores_the_mask_of_a_reset_is_warned_of_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transitions(make_vector_env(4, options()), 4, 30)
    with pytest.warns(RuntimeWarning, match="changed .*'round'.* of games that have not ended") as seen:
        transitions(make_vector_env(4, options(breaks="deaf")), 4, 30)
    assert len(seen) == 1


def test_the_batch_of_the_example_is_simple_spread(monkeypatch):
    """Observations and rewards of mpe2's game, from the same places and with the same actions."""
    monkeypatch.syspath_prepend("examples")
    from spread_batch import Spread

    batch = Spread(4)
    batch.reset(seed=0)
    batch.place *= 0.3  # near enough to bump
    batch.measure()
    games = [simple_spread_v3.parallel_env() for _ in range(4)]
    for index, game in enumerate(games):
        game.reset(seed=index)
        world = game.unwrapped.world
        for agent, landmark, place, goal in zip(
            world.agents, world.landmarks, batch.place[index], batch.landmarks[index], strict=True
        ):
            agent.state.p_pos, landmark.state.p_pos = place.copy(), goal.copy()
    rng = np.random.default_rng(0)
    paid = 0.0
    for _ in range(25):
        actions = {agent: rng.integers(0, 5, 4) for agent in batch.possible_agents}
        seen, rewards, _, truncated, _ = batch.step(actions)
        for index, game in enumerate(games):
            theirs, their_rewards, _, cut, _ = game.step({agent: int(taken[index]) for agent, taken in actions.items()})
            for agent in actions:
                np.testing.assert_allclose(seen[agent][index], theirs[agent], atol=1e-6)
                assert rewards[agent][index] == pytest.approx(their_rewards[agent])
                assert cut[agent] == truncated[index]
        paid += rewards["agent_0"][0]
    assert paid < -20
    assert ActorID("agent", 2) == make_env(PettingZooVectorOptions(entry=Spread))._seats["agent_2"].actor
